// SPDX-License-Identifier: GPL-3.0-or-later
// Paths of the HTTP API -> operations of the broker. Runs in the broker's thread.
#pragma once

#include "broker/broker.h"
#include "broker/server.h"

namespace spider::broker {

void route(Broker &broker, const ApiRequest &request, std::function<void(ApiReply)> respond);

} // namespace spider::broker
