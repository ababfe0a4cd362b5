// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/answer.h"

#include "util/text.h"

#include <algorithm>
#include <array>

namespace spider::slurm {
namespace {

struct Meaning {
    std::int64_t number;
    Errc code;
};

// slurm_errno.h; every number that is not here is a refusal.
constexpr std::array meanings{
    Meaning{-1, Errc::unreachable},   // "Unspecified error": bad token or slurmctld down (22.05)
    Meaning{1000, Errc::unreachable}, // unexpected message: slurmctld gone (24.11 and later)
    Meaning{1001, Errc::unreachable}, // communication connection failure
    Meaning{1002, Errc::unreachable}, // communication shutdown
    Meaning{1007, Errc::denied},      // protocol authentication error
    Meaning{1800, Errc::unreachable}, // unable to contact slurm controller
    Meaning{2002, Errc::denied},      // access denied
    Meaning{2010, Errc::denied},      // invalid user id
    Meaning{slurm_unknown_job, Errc::not_found},
    Meaning{5004, Errc::unreachable}, // socket timed out
    Meaning{5005, Errc::unreachable}, // zero bytes: how 22.05 answers a submission with a bad token
};

constexpr std::string_view cure =
    "either its slurmctld is down (scontrol ping there) or the token is not taken (expired, "
    "of another site, or not allowed to name this user)";

SiteError site_error(const model::Json &entry) {
    SiteError error;
    for (const auto key : {"error_number", "error_code", "errno"})
        if (const auto number = model::number_at(entry, key))
            error.number = static_cast<std::int64_t>(*number);
    error.words = one_line(model::text_at(entry, "description"));
    const std::string name = one_line(model::text_at(entry, "error"));
    if (!name.empty() && error.words.find(name) == error.words.npos)
        error.words += (error.words.empty() ? "" : ": ") + name;
    if (error.words.empty()) error.words = "an error without words";
    if (error.number > 0) error.words += " (" + std::to_string(error.number) + ")";
    return error;
}

// Answers that are plain text: 401 without a token, 404 for a path, 400 for what could not be parsed.
Error plain_refusal(const Reply &reply) {
    const std::string said = one_line(util::trim(reply.body));
    const std::string what = "HTTP " + std::to_string(reply.status) + (said.empty() ? "" : ": " + said);
    switch (reply.status) {
    case 400:
    case 415:
    case 422:
        return {Errc::refused, what};
    case 401:
    case 403:
        return {Errc::denied, what + "; the token or the user name was not taken"};
    case 404: // not "no such job": a proxy says the same
        return {Errc::protocol, what + "; no slurmrestd that serves this OpenAPI version answers there"};
    case 502:
    case 503:
    case 504:
        return {Errc::unreachable, what};
    default:
        return {Errc::protocol, what + ": not an answer of slurmrestd"};
    }
}

} // namespace

std::string one_line(std::string_view text, std::size_t most) {
    std::string line(text.substr(0, most));
    std::replace_if(
        line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }, ' ');
    return text.size() > most ? line + "..." : line;
}

bool Answer::has(std::int64_t number) const {
    return std::any_of(errors.begin(), errors.end(),
                       [&](const SiteError &error) { return error.number == number; });
}

Result<Answer> read_answer(const Reply &reply) {
    if (!util::trim(reply.body).starts_with('{')) return plain_refusal(reply);
    auto json = model::parse_json(reply.body);
    if (!json)
        return Error{Errc::protocol,
                     "HTTP " + std::to_string(reply.status) + ", not JSON: " + one_line(json.error().what)};
    Answer answer{reply.status, std::move(json).value(), {}};
    if (const auto &errors = model::at(answer.json, "errors"); errors.is_array())
        for (const auto &entry : errors)
            answer.errors.push_back(site_error(entry));
    return answer;
}

Error refusal(const Answer &answer) {
    const std::string status = "HTTP " + std::to_string(answer.status);
    if (answer.errors.empty()) return {Errc::protocol, status + " without a reason"};
    Errc code = Errc::refused;
    for (const Meaning &meaning : meanings)
        if (meaning.number == answer.errors.front().number) code = meaning.code;
    // 22.05 also says -1 of a field that it could not read; then further errors tell which.
    if (answer.errors.front().number == -1 && answer.errors.size() > 1) code = Errc::refused;
    std::string what = status + ": " + words(answer.errors);
    if (code == Errc::unreachable) what += "; " + std::string(cure);
    return {code, what};
}

std::string words(const std::vector<SiteError> &errors) {
    std::vector<std::string> all;
    for (const SiteError &error : errors)
        if (std::find(all.begin(), all.end(), error.words) == all.end()) all.push_back(error.words);
    return util::join(all, "; ");
}

} // namespace spider::slurm
