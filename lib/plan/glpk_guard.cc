// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/glpk_guard.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <glpk.h>

namespace spider::plan {

namespace {

struct Call {
    std::jmp_buf back;
    char complaint[200];
};

// GLPK turns its output on before it complains, whatever was asked. Nonzero: not printed.
int keep(void *info, const char *text) {
    auto *call = static_cast<Call *>(info);
    const auto length = std::strlen(call->complaint);
    std::snprintf(call->complaint + length, sizeof call->complaint - length, "%s", text);
    return 1;
}

void leave(void *info) { std::longjmp(static_cast<Call *>(info)->back, 1); }

bool completes(Call &call, void (*act)(void *), void *with) {
    if (setjmp(call.back) != 0) return false;
    act(with);
    return true;
}

} // namespace

std::string guarded_glpk(void (*act)(void *), void *with) {
    Call call{};
    glp_term_out(GLP_OFF);
    glp_term_hook(keep, &call);
    glp_error_hook(leave, &call);
    const bool done = completes(call, act, with);
    glp_free_env(); // needed after a complaint; at other times it keeps threads that end from leaking
    if (done) return {};
    const std::string complaint = call.complaint;
    return complaint.empty() ? "no reason given" : complaint.substr(0, complaint.find('\n'));
}

} // namespace spider::plan
