package gateway

import (
	"maps"

	"github.com/turnstone-run/turnstone/agent"
)

// orEmpty returns the list, or an empty one for nil, which JSON would write as null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// orEmptyMap returns a copy of the map, or an empty one for nil, which JSON would write as null.
func orEmptyMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// mapList returns the results of f for the entries of a list. It does not change the list.
func mapList[T any](list []T, f func(T) T) []T {
	out := make([]T, len(list))
	for i := range list {
		out[i] = f(list[i])
	}
	return out
}

// filterAllowed returns the entries whose resource the caller may do a to. It does not change the list.
func filterAllowed[T any](caller identity, a agent.Action, list []T, resource func(*T) string) []T {
	if caller.principal.MayAll(a) {
		return list
	}
	var allowed []T
	for i := range list {
		if caller.principal.May(a, resource(&list[i])) {
			allowed = append(allowed, list[i])
		}
	}
	return allowed
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
		Revision: e.Revision, Snapshot: e.Snapshot, Nodes: mapList(e.Nodes, nodeBody), Agents: mapList(e.Agents, agentBody),
		Removed: orEmpty(e.Removed),
	}
}

func statusBody(s agent.CatalogStatus) agent.CatalogStatus {
	s.Counts = orEmptyMap(s.Counts)
	s.Sources = mapList(s.Sources, func(o agent.SourceStatus) agent.SourceStatus {
		o.Faults = orEmpty([]agent.Fault(clipFaults(o.Faults, faultBytes)))
		return o
	})
	return s
}
