// SPDX-License-Identifier: GPL-3.0-or-later
#include "wire/links.h"

#include "wire/fields.h"
#include "wire/messages.h"

namespace spider::wire {
namespace {

Json link_json(const LinkState &link) {
    return Json{{"from", link.from},
                {"to", link.to},
                {"gbps", link.gbps},
                {"gbps_median", link.gbps_median},
                {"rtt_ms", link.rtt_ms},
                {"rtt_min_ms", link.rtt_min_ms},
                {"rtt_p95_ms", link.rtt_p95_ms},
                {"streams", link.streams},
                {"source", link.source},
                {"measured_at", link.measured_at},
                {"samples", link.samples},
                {"reserved_gbps", link.reserved_gbps},
                {"trouble", link.trouble},
                {"next_due", link.next_due},
                {"testing", link.testing}};
}

Result<LinkState> read_link(const Json &json) {
    LinkState link;
    Fields fields(json);
    fields.need("from").need("to").read("from", link.from).read("to", link.to);
    fields.read("gbps", link.gbps).read("gbps_median", link.gbps_median).read("rtt_ms", link.rtt_ms);
    fields.read("rtt_min_ms", link.rtt_min_ms).read("rtt_p95_ms", link.rtt_p95_ms);
    fields.read("streams", link.streams).read("source", link.source).read("samples", link.samples);
    fields.read("measured_at", link.measured_at).read("reserved_gbps", link.reserved_gbps);
    fields.read("trouble", link.trouble).read("next_due", link.next_due);
    return fields.read("testing", link.testing).done(std::move(link));
}

} // namespace

Json to_json(const LinksView &message) {
    auto links = Json::array();
    for (const auto &link : message.links)
        links.push_back(link_json(link));
    return Json{{"now", message.now}, {"max_age", message.max_age}, {"links", std::move(links)}};
}

template <>
Result<LinksView> from_json(const Json &json) {
    LinksView message;
    Fields fields(json);
    fields.need("links").list("links", message.links, read_link);
    return fields.read("now", message.now).read("max_age", message.max_age).done(std::move(message));
}

Json to_json(const MeasureRequest &message) { return Json{{"from", message.from}, {"to", message.to}}; }

template <>
Result<MeasureRequest> from_json(const Json &json) {
    MeasureRequest message;
    Fields fields(json);
    fields.need("from").need("to").read("from", message.from);
    return fields.read("to", message.to).done(std::move(message));
}

Json to_json(const ImportRequest &message) {
    auto samples = Json::array();
    for (const auto &sample : message.samples)
        samples.push_back(probe::to_json(sample));
    return Json{{"samples", std::move(samples)}};
}

template <>
Result<ImportRequest> from_json(const Json &json) {
    ImportRequest message;
    Fields fields(json);
    fields.need("samples").list("samples", message.samples, probe::sample_from_json);
    return fields.done(std::move(message));
}

Json to_json(const ImportReply &message) { return Json{{"taken", message.taken}}; }

template <>
Result<ImportReply> from_json(const Json &json) {
    ImportReply message;
    return Fields(json).need("taken").read("taken", message.taken).done(message);
}

} // namespace spider::wire
