// SPDX-License-Identifier: GPL-3.0-or-later
#include "util/schedule.h"

#include <algorithm>

namespace spider::util {

std::string schedule_csv(std::span<const int> depths, int micro_batches) {
    std::string text;
    for (std::size_t stage = 0; stage < depths.size(); ++stage) {
        const auto add = [&](char kind, int micro_batch) {
            text += std::to_string(stage) + kind + std::to_string(micro_batch) + ',';
        };
        int ahead = 0;
        while (ahead < std::min(depths[stage], micro_batches))
            add('F', ahead++);
        for (int behind = 0; behind < micro_batches; ++behind) {
            add('B', behind);
            if (ahead < micro_batches) add('F', ahead++);
        }
        if (micro_batches > 0) text.back() = '\n';
    }
    return text;
}

} // namespace spider::util
