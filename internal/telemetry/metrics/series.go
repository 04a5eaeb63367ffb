package metrics

import "github.com/prometheus/client_golang/prometheus"

// Each key is a combination of labels, and each struct of series has the series of a combination.

type turnKey struct{ tenant, agent, status, stop string }

type turnSeries struct {
	turns     prometheus.Counter
	workTime  prometheus.Observer // without waiting for people
	totalTime prometheus.Observer
}

func (b *builder) newTurnFamily(overflow prometheus.Counter) *family[turnKey, turnSeries] {
	turns := b.newCounters("agent_turns_total", "Turns that ended, by tenant, agent, status and stop reason.", "tenant", "agent", "status", "stop_reason")
	workTime := b.newHistograms("agent_latency_seconds",
		"Work time of turns that ended, without the time that they waited for people, by agent and status.", turnBuckets(), "agent", "status")
	totalTime := b.newHistograms("agent_turn_seconds", "From when a turn was first seen to its end, all waiting included, by status.", waitBuckets(), "status")
	return newFamily(b.maxValues*combinationsFactor, overflow,
		func(k turnKey) turnKey { k.tenant, k.agent = other, other; return k },
		func(k turnKey) turnSeries {
			return turnSeries{
				turns.WithLabelValues(k.tenant, k.agent, k.status, k.stop), workTime.WithLabelValues(k.agent, k.status), totalTime.WithLabelValues(k.status),
			}
		})
}

type requestKey struct{ provider, model, purpose, outcome string }

type requestSeries struct {
	requests   prometheus.Counter
	duration   prometheus.Observer
	firstToken prometheus.Observer
}

type errorKey struct{ provider, model, code string }

func (b *builder) newRequestFamily(overflow prometheus.Counter) *family[requestKey, requestSeries] {
	requests := b.newCounters("model_requests_total",
		"Requests to providers, by provider, model, purpose (reply, middleware, prepare) and outcome (ok, error, cancelled).",
		"provider", "model", "purpose", "outcome")
	duration := b.newHistograms("model_request_seconds", "Time of requests to providers, by model, however they ended.", modelBuckets(), "model")
	firstToken := b.newHistograms("model_first_token_seconds", "From a request to a provider to its first fragment, by model.", firstTokenBuckets(), "model")
	return newFamily(b.maxValues*combinationsFactor, overflow,
		func(k requestKey) requestKey { k.provider, k.model = other, other; return k },
		func(k requestKey) requestSeries {
			return requestSeries{
				requests.WithLabelValues(k.provider, k.model, k.purpose, k.outcome), duration.WithLabelValues(k.model), firstToken.WithLabelValues(k.model),
			}
		})
}

func (b *builder) newErrorFamily(overflow prometheus.Counter) *family[errorKey, prometheus.Counter] {
	errors := b.newCounters("model_errors_total", "Requests that a provider failed, by provider, model and code of the error.", "provider", "model", "code")
	return newFamily(b.maxValues*combinationsFactor, overflow,
		func(k errorKey) errorKey { k.provider, k.model = other, other; return k },
		func(k errorKey) prometheus.Counter { return errors.WithLabelValues(k.provider, k.model, k.code) })
}

type usageKey struct{ tenant, agent, model string }

type usageSeries struct{ input, output, cached, reasoning, cost prometheus.Counter }

func (b *builder) newUsageFamily(overflow prometheus.Counter) *family[usageKey, usageSeries] {
	tokens := b.newCounters("usage_tokens_total",
		"Tokens of requests to providers, by tenant, agent, model and kind: input (cached included), output, cached, reasoning.",
		"tenant", "agent", "model", "kind")
	cost := b.newCounters("usage_cost_usd_total", "What requests to providers cost in US dollars, at the prices of the catalog.", "tenant", "agent", "model")
	return newFamily(b.maxValues*combinationsFactor, overflow,
		func(usageKey) usageKey { return usageKey{other, other, other} },
		func(k usageKey) usageSeries {
			ofKind := func(kind string) prometheus.Counter { return tokens.WithLabelValues(k.tenant, k.agent, k.model, kind) }
			return usageSeries{ofKind("input"), ofKind("output"), ofKind("cached"), ofKind("reasoning"), cost.WithLabelValues(k.tenant, k.agent, k.model)}
		})
}

type toolKey struct{ tool, outcome string }

type toolSeries struct {
	calls    prometheus.Counter
	duration prometheus.Observer // nil for calls that did not run
}

func (b *builder) newToolFamily(overflow prometheus.Counter) *family[toolKey, toolSeries] {
	calls := b.newCounters("tool_invocations_total",
		"Attempts of tool calls, by tool and outcome: success, failed (the model is told), cached, refused (it did not run), error (it is tried again).",
		"tool", "outcome")
	duration := b.newHistograms("tool_latency_seconds", "Time of attempts of tool calls that ran, by tool.", toolBuckets(), "tool")
	return newFamily(b.maxValues*combinationsFactor, overflow,
		func(k toolKey) toolKey { k.tool = other; return k },
		func(k toolKey) toolSeries {
			s := toolSeries{calls: calls.WithLabelValues(k.tool, k.outcome)}
			if k.outcome != outcomeRefused && k.outcome != outcomeCached {
				s.duration = duration.WithLabelValues(k.tool)
			}
			return s
		})
}

type activityKey struct{ activity, outcome string }

func (b *builder) newActivityFamily(overflow prometheus.Counter) *family[activityKey, prometheus.Observer] {
	duration := b.newHistograms("activity_seconds", "Time of activities, also of direct turns, by activity and outcome: ok, error, cancelled.",
		activityBuckets(), "activity", "outcome")
	return newFamily(b.maxValues*combinationsFactor, overflow,
		func(k activityKey) activityKey { k.activity = other; return k },
		func(k activityKey) prometheus.Observer { return duration.WithLabelValues(k.activity, k.outcome) })
}
