package gateway

import (
	"cmp"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// ServedRoute is a method of a path that a gateway serves, and what it wants of its caller.
type ServedRoute struct {
	Method  string         // GET serves HEAD too
	Path    string         // as in [http.ServeMux], without a method
	Actions []agent.Action // one of which must be allowed; empty where Public or Known
	Known   bool           // any credential will do
	Public  bool           // none is needed
	// EveryTenant says that the credential must be of every tenant besides.
	EveryTenant bool
}

// Routes lists what the gateway and its doors serve over HTTP, by path and method.
func (g *Gateway) Routes() []ServedRoute {
	if g.http == nil {
		return nil
	}
	s, ok := g.http.Handler.(*httpServer)
	if !ok {
		return nil // cannot happen: newHTTPServer has made it
	}
	var all []ServedRoute
	for path, m := range s.paths {
		for method, e := range m {
			all = append(all, ServedRoute{
				Method: method, Path: path, Actions: slices.Clone(e.need.actions), Known: e.need.known, Public: e.need.anyone, EveryTenant: e.need.everywhere,
			})
		}
	}
	slices.SortFunc(all, func(a, b ServedRoute) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return all
}
