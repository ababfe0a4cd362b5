// SPDX-License-Identifier: GPL-3.0-or-later
// Predicted against measured: bench/predict [FOLDER], the folder that holds measured.json and topologies/.
#include "bench/predict_print.h"

#include <cstdio>

namespace {

spider::Result<void> run(const std::string &folder) {
    const auto measured = spider::bench::read_measured(folder);
    if (!measured) return measured.error();
    spider::bench::print_clusters(*measured);
    if (auto done = spider::bench::print_dtfm(folder, *measured); !done) return done;
    spider::bench::print_links(*measured);
    spider::bench::print_fits(*measured);
    return {};
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 2) {
        std::fprintf(stderr, "usage: predict [FOLDER]\n");
        return 2;
    }
    const auto done = run(argc == 2 ? argv[1] : "tests/data");
    if (!done) std::fprintf(stderr, "predict: %s\n", done.error().what.c_str());
    return done ? 0 : 1;
}
