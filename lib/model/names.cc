// SPDX-License-Identifier: GPL-3.0-or-later
// Names of enumerators: one table each, for printing and for parsing.
#include "model/json.h"

#include <array>

namespace spider::model {

namespace {

template <class T>
struct Word {
    T value;
    std::string_view text;
};

constexpr std::array trainers{
    Word<Trainer>{Trainer::plain, "plain"},           Word<Trainer>{Trainer::megatron, "megatron"},
    Word<Trainer>{Trainer::torchtitan, "torchtitan"}, Word<Trainer>{Trainer::deepspeed, "deepspeed"},
    Word<Trainer>{Trainer::nanotron, "nanotron"},     Word<Trainer>{Trainer::torchrun, "torchrun"},
};
constexpr std::array launchers{
    Word<Launcher>{Launcher::srun, "srun"},
    Word<Launcher>{Launcher::torchrun, "torchrun"},
};
constexpr std::array precisions{
    Word<Precision>{Precision::bf16, "bf16"},
    Word<Precision>{Precision::fp16, "fp16"},
    Word<Precision>{Precision::fp32, "fp32"},
};
constexpr std::array checkings{
    Word<LinkChecking>{LinkChecking::no, "no"},
    Word<LinkChecking>{LinkChecking::warn, "warn"},
    Word<LinkChecking>{LinkChecking::replan, "replan"},
};
constexpr std::array failures{
    Word<OnFailure>{OnFailure::cancel, "cancel"},
    Word<OnFailure>{OnFailure::retry, "retry"},
    Word<OnFailure>{OnFailure::replan, "replan"},
};
constexpr std::array recomputes{
    Word<Recompute>{Recompute::none, "none"},
    Word<Recompute>{Recompute::selective, "selective"},
    Word<Recompute>{Recompute::full, "full"},
};
constexpr std::array objectives{
    Word<Objective>{Objective::jct, "jct"},
    Word<Objective>{Objective::throughput, "throughput"},
};
constexpr std::array sendings{
    Word<Sends>{Sends::async, "async"},
    Word<Sends>{Sends::blocking, "blocking"},
};
constexpr std::array site_states{
    Word<SiteState>{SiteState::active, "ACTIVE"},
    Word<SiteState>{SiteState::drain, "DRAIN"},
    Word<SiteState>{SiteState::inactive, "INACTIVE"},
};
constexpr std::array outcomes{
    Word<Outcome>{Outcome::planned, "planned"},
    Word<Outcome>{Outcome::infeasible, "infeasible"},
};

template <class T, std::size_t N>
std::string_view text_of(const std::array<Word<T>, N> &words, T value) {
    for (const auto &word : words)
        if (word.value == value) return word.text;
    return "?";
}

template <class T, std::size_t N>
std::optional<T> value_of(const std::array<Word<T>, N> &words, std::string_view text) {
    for (const auto &word : words)
        if (word.text == text) return word.value;
    return std::nullopt;
}

} // namespace

std::string_view name(Trainer value) { return text_of(trainers, value); }
std::string_view name(Launcher value) { return text_of(launchers, value); }
std::string_view name(Precision value) { return text_of(precisions, value); }
std::string_view name(OnFailure value) { return text_of(failures, value); }
std::string_view name(LinkChecking value) { return text_of(checkings, value); }
std::string_view name(Recompute value) { return text_of(recomputes, value); }
std::string_view name(Objective value) { return text_of(objectives, value); }
std::string_view name(Sends value) { return text_of(sendings, value); }
std::string_view name(SiteState value) { return text_of(site_states, value); }
std::string_view name(Outcome value) { return text_of(outcomes, value); }

std::optional<Trainer> trainer_named(std::string_view text) { return value_of(trainers, text); }
std::optional<Launcher> launcher_named(std::string_view text) { return value_of(launchers, text); }
std::optional<Precision> precision_named(std::string_view text) { return value_of(precisions, text); }
std::optional<OnFailure> on_failure_named(std::string_view text) { return value_of(failures, text); }
std::optional<LinkChecking> link_checking_named(std::string_view text) { return value_of(checkings, text); }
std::optional<Recompute> recompute_named(std::string_view text) { return value_of(recomputes, text); }
std::optional<Objective> objective_named(std::string_view text) { return value_of(objectives, text); }
std::optional<Sends> sends_named(std::string_view text) { return value_of(sendings, text); }
std::optional<SiteState> site_state_named(std::string_view text) { return value_of(site_states, text); }
std::optional<Outcome> outcome_named(std::string_view text) { return value_of(outcomes, text); }

} // namespace spider::model
