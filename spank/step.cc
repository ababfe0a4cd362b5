// SPDX-License-Identifier: GPL-3.0-or-later
#include "spank/step.h"

#include "spank/guard.h"
#include "spank/options.h"
#include "spank/submit.h"
#include "util/hostlist.h"
#include "util/text.h"

#include <cstdlib>

namespace spider::spank {
namespace {

// Each of them says which nodes of the job the step takes.
constexpr const char *node_pickers[] = {"nodelist", "nodefile", "exclude", "relative"};

std::optional<std::string> variable(const char *name) {
    const char *value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
}

Geometry geometry_of(const OptionTable &table) {
    Geometry geometry{table.value("nodes").value_or(""), table.value("ntasks").value_or(""),
                      variable("SLURM_NTASKS").value_or("")};
    for (const char *name : node_pickers)
        geometry.own_nodes = geometry.own_nodes || table.is_set(name);
    return geometry;
}

// "2" and "2-2" mean the same.
bool is_count(const std::string &text, int count) {
    const auto wanted = std::to_string(count);
    return text == wanted || text == wanted + "-" + wanted;
}

void reshape(const OptionTable &table) {
    const auto carriers = read_carriers(variable);
    const auto list = variable("SLURM_JOB_NODELIST");
    // Whatever is wrong here is reported by the tasks: there it ends the step and no more.
    if (!carriers || !list || !is_the_plans(geometry_of(table), *carriers)) return;
    const auto options = shape(*carriers, *list);
    if (!options) return;
    for (const auto &[name, value] : *options)
        if (!table.set(name, value))
            slurm_verbose("spiderflow: srun refuses --%s=%s", name.c_str(), value.c_str());
}

} // namespace

bool is_the_plans(const Geometry &geometry, const Carriers &carriers) {
    if (geometry.own_nodes) return false;
    if (!geometry.nodes.empty() && !is_count(geometry.nodes, static_cast<int>(carriers.nodes.size())))
        return false;
    return geometry.ntasks.empty() || geometry.ntasks == geometry.job_ntasks ||
           is_count(geometry.ntasks, carriers.tasks());
}

Result<std::vector<std::pair<std::string, std::string>>> shape(const Carriers &carriers,
                                                               const std::string &node_list) {
    const auto nodes = util::expand_hostlist(node_list);
    if (!nodes) return nodes.error();
    if (nodes->size() != carriers.nodes.size())
        return Error{Errc::invalid, "the job has " + std::to_string(nodes->size()) + " nodes, the plan " +
                                        std::to_string(carriers.nodes.size())};
    std::vector<std::string> places;
    for (std::size_t node = 0; node < nodes->size(); ++node)
        places.insert(places.end(), static_cast<std::size_t>(carriers.tasks_on(node)), (*nodes)[node]);
    return std::vector<std::pair<std::string, std::string>>{
        {"nodes", std::to_string(nodes->size())},
        {"ntasks", std::to_string(places.size())},
        {"distribution", "arbitrary"},
        {"nodelist", util::join(places, ",")},
    };
}

void before_step(const Asked &asked) {
    if (asked.off()) return;
    const auto job = variable(carrier::job);
    const auto table = OptionTable::find();
    auto here = variable("SLURM_JOB_ID");
    if (!here && table) here = table->value("jobid"); // a script that has cleaned its environment
    const auto member = variable(carrier::local_job);
    if (!job || !here || (member && *member != *here)) {
        if (asked.on()) refuse_elsewhere("srun", " outside a federated job");
        return;
    }
    if (!member) {
        slurm_spank_log(
            "spiderflow: job %s: the batch step got no word from the broker: is the plugin installed on "
            "its node?",
            job->c_str());
        std::exit(1);
    }
    if (!table) return; // the job's own geometry is the plan's too, unless its nodes differ
    reshape(*table);
    if (!table->is_set("kill-on-bad-exit")) table->set("kill-on-bad-exit", "1");
}

} // namespace spider::spank
