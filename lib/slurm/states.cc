// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/states.h"

#include <algorithm>
#include <array>

namespace spider::slurm {
namespace {

struct JobWord {
    std::string_view word;
    JobState state;
};

// job_state_string() of Slurm 22.05 to 26.05; the first word of a state is its name().
constexpr std::array job_words{
    JobWord{"PENDING", JobState::pending},
    JobWord{"RUNNING", JobState::running},
    JobWord{"COMPLETING", JobState::completing},
    JobWord{"OTHER", JobState::other},
    JobWord{"COMPLETED", JobState::completed},
    JobWord{"FAILED", JobState::failed},
    JobWord{"CANCELLED", JobState::cancelled},
    JobWord{"TIMEOUT", JobState::timeout},
    JobWord{"NODE_FAIL", JobState::node_fail},
    JobWord{"PREEMPTED", JobState::preempted},
    JobWord{"CONFIGURING", JobState::running}, // its nodes boot or run their prolog
    JobWord{"STAGE_OUT", JobState::completing},
    JobWord{"REQUEUED", JobState::pending},
    JobWord{"REQUEUE_HOLD", JobState::pending},
    JobWord{"REQUEUE_FED", JobState::pending},
    JobWord{"RESV_DEL_HOLD", JobState::pending},
    JobWord{"SPECIAL_EXIT", JobState::pending}, // requeued and held after a special exit status
    JobWord{"DEADLINE", JobState::timeout},
    JobWord{"OUT_OF_MEMORY", JobState::failed},
    JobWord{"BOOT_FAIL", JobState::failed},
    JobWord{"LAUNCH_FAILED", JobState::failed},
    JobWord{"RECONFIG_FAIL", JobState::failed},
    JobWord{"REVOKED", JobState::failed},
};

enum class Effect {
    none,
    later,    // in service, but not for a new job now
    bootable, // powered down or coming up: a job that waits gets it
    out,
};

struct NodeFlag {
    std::string_view flag;
    Effect effect;
};

// node_state_flag_string_single() of Slurm 22.05 and NODE_STATES of data_parser v0.0.45.
constexpr std::array node_flags{
    NodeFlag{"CLOUD", Effect::none},
    NodeFlag{"DYNAMIC_FUTURE", Effect::none},
    NodeFlag{"DYNAMIC_NORM", Effect::none},
    NodeFlag{"REBOOT_CANCELED", Effect::none},
    NodeFlag{"RESUME", Effect::none},
    NodeFlag{"UNDRAIN", Effect::none},
    NodeFlag{"COMPLETING", Effect::later},
    NodeFlag{"PLANNED", Effect::later}, // backfill keeps it for another job
    NodeFlag{"POWERED_DOWN", Effect::bootable},
    NodeFlag{"POWERING_UP", Effect::bootable},
    NodeFlag{"POWER_UP", Effect::bootable},
    NodeFlag{"BLOCKED", Effect::out},
    NodeFlag{"DOWN", Effect::out},
    NodeFlag{"DRAIN", Effect::out},
    NodeFlag{"EXTERNAL", Effect::out},
    NodeFlag{"FAIL", Effect::out},
    NodeFlag{"FUTURE", Effect::out},
    NodeFlag{"INVALID_REG", Effect::out},
    NodeFlag{"MAINTENANCE", Effect::out},
    NodeFlag{"NOT_RESPONDING", Effect::out},
    NodeFlag{"POWERING_DOWN", Effect::out},
    NodeFlag{"POWER_DOWN", Effect::out},
    NodeFlag{"POWER_DRAIN", Effect::out},
    NodeFlag{"REBOOT_ISSUED", Effect::out},
    NodeFlag{"REBOOT_REQUESTED", Effect::out},
    NodeFlag{"RESERVED", Effect::out},
};

} // namespace

std::string upper(std::string_view text) {
    std::string result(text);
    for (char &c : result)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return result;
}

JobState job_state(std::string_view word) {
    const auto found =
        std::find_if(job_words.begin(), job_words.end(), [&](auto &row) { return row.word == word; });
    return found != job_words.end() ? found->state : JobState::other;
}

std::string_view name(JobState state) {
    return std::find_if(job_words.begin(), job_words.end(), [&](auto &row) { return row.state == state; })
        ->word;
}

void judge(NodeView &node) {
    Effect worst = Effect::none;
    node.unknown_flags.clear();
    for (const std::string &flag : node.flags) {
        const auto known =
            std::find_if(node_flags.begin(), node_flags.end(), [&](auto &row) { return row.flag == flag; });
        if (known == node_flags.end()) node.unknown_flags.push_back(flag);
        worst = std::max(worst, known == node_flags.end() ? Effect::out : known->effect);
    }
    const bool room = node.state == "IDLE" || node.state == "MIXED";
    const bool works = room || node.state == "ALLOCATED";
    node.usable = works && worst <= Effect::later;
    node.free_now = room && worst == Effect::none;
    node.bootable = works && worst == Effect::bootable;
}

} // namespace spider::slurm
