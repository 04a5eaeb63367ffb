package gateway

import (
	"maps"

	"github.com/turnstone-run/turnstone/agent"
)

// This file gives answers about the catalog their JSON: lists are [] and maps {}, never null. What the catalog handed out is shared and
// stays as it is.

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func orEmptyMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// listed copies a list entry by entry.
func listed[T any](list []T, body func(T) T) []T {
	out := make([]T, len(list))
	for i := range list {
		out[i] = body(list[i])
	}
	return out
}

// kept filters a list that may be shared.
func kept[T any](list []T, keep func(*T) bool) []T {
	var out []T
	for i := range list {
		if keep(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

func nodeBody(n agent.NodeInfo) agent.NodeInfo {
	n.Labels, n.Tools = orEmptyMap(n.Labels), orEmpty(n.Tools)
	return n
}

func agentBody(a agent.AgentInfo) agent.AgentInfo {
	a.Labels, a.Tools = orEmptyMap(a.Labels), orEmpty(a.Tools)
	a.Models, a.Middleware, a.Capabilities = orEmpty(a.Models), orEmpty(a.Middleware), orEmpty(a.Capabilities)
	return a
}

func catalogEventBody(e *agent.CatalogEvent) agent.CatalogEvent {
	return agent.CatalogEvent{
		Revision: e.Revision, Snapshot: e.Snapshot, Nodes: listed(e.Nodes, nodeBody), Agents: listed(e.Agents, agentBody),
		Removed: orEmpty(e.Removed),
	}
}

func statusBody(s agent.CatalogStatus) agent.CatalogStatus {
	s.Counts = orEmptyMap(s.Counts)
	s.Sources = listed(s.Sources, func(o agent.SourceStatus) agent.SourceStatus {
		o.Faults = orEmpty([]agent.Fault(someFaults(o.Faults, faultBytes)))
		return o
	})
	return s
}

// routeBody is a decision with its list of rules, which is there even when it is empty.
type routeBody struct {
	agent.RouteDecision

	Rules []agent.RuleVerdict `json:"rules"`
}

func routeBodyOf(d agent.RouteDecision) routeBody {
	return routeBody{RouteDecision: d, Rules: orEmpty(d.Rules)}
}
