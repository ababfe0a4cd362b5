// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/order.h"

#include "model/fields.h"

#include <algorithm>

namespace spider::probe {

Order limited(Order order, const Limits &limits) {
    order.streams = std::clamp(order.streams, 1, std::min(limits.streams, most_streams));
    order.seconds = std::min(order.seconds, most_seconds);
    if (limits.gbps > 0)
        order.pace_gbps = order.pace_gbps > 0 ? std::min(order.pace_gbps, limits.gbps) : limits.gbps;
    if (limits.bytes > 0) order.most_bytes = std::min(order.most_bytes, limits.bytes / 4);
    return order;
}

Json to_json(const Order &order) {
    return {{"from", order.from},          {"to", order.to},           {"address", order.address},
            {"streams", order.streams},    {"seconds", order.seconds}, {"most_bytes", order.most_bytes},
            {"pace_gbps", order.pace_gbps}};
}

Result<Order> order_from_json(const Json &json) {
    std::optional<Error> trouble;
    model::Fields fields(json, "order", trouble);
    Order order;
    order.from = fields.text_or("from", "");
    order.to = fields.text_or("to", "");
    order.address = fields.text_or("address", "");
    order.streams = fields.integer("streams", 1, most_streams);
    order.seconds = fields.real("seconds", 0.1, most_seconds);
    order.most_bytes = fields.real("most_bytes", 1, 1e15);
    order.pace_gbps = fields.real("pace_gbps", 0, 1e6);
    if (trouble) return std::move(*trouble);
    return order;
}

// Round trips of seconds, as over a full queue, and 20 echoes are in it.
Seconds longest(const Order &order) { return 3 * order.seconds + 45; }

} // namespace spider::probe
