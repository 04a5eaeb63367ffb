package gateway

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Door serves further paths over HTTP, such as a WebSocket or another API's format. It starts turns through [Call.Submit].
type Door interface {
	Routes() []Route
}

// Drainer is a [Door] with connections that net/http no longer knows, such as WebSockets. The gateway calls Shutdown once, when it shuts down.
// Shutdown ends each connection after a complete message, and cuts those that are left when ctx ends.
type Drainer interface {
	Shutdown(ctx context.Context) error
}

// ErrorBody returns the JSON body of a response that is an error.
type ErrorBody func(status int, f *agent.Failure) any

// Route is one method of a path of a door.
type Route struct {
	Method string // GET serves HEAD too
	Path   string // as in [http.ServeMux], without a method: "/v1/chat/completions", "/v1/models/{model...}"
	// Action is the action that the caller must be allowed, for any resource. Handle checks the resource with [Call.Allow].
	Action agent.Action
	// Public routes need no credential, because they identify their callers in another way or disclose nothing. Action is then empty.
	Public bool
	Handle func(w http.ResponseWriter, r *http.Request, c *Call) error
	// ErrorBody returns the JSON body of an error in the format of the door's API; nil means the gateway's format.
	ErrorBody ErrorBody
}

// mount registers the paths of the doors.
func (s *httpServer) mount(doors []Door) {
	byPath := map[string]methods{}
	for _, d := range doors {
		for _, route := range d.Routes() {
			if byPath[route.Path] == nil {
				byPath[route.Path] = methods{}
			}
			handle := s.serve(tenantHeaderFirst, func(c *Call) error { return route.Handle(c.w, c.r, c) })
			required := requirement{public: route.Public}
			if route.Action != "" {
				required = requirement{actions: []agent.Action{route.Action}}
			}
			byPath[route.Path][route.Method] = endpoint{required: required, handle: handle, errorBody: route.ErrorBody}
		}
	}
	for path, m := range byPath {
		s.route(path, m)
	}
}

// ServedRoute is a method of a path that a gateway serves, with the permission that it requires.
type ServedRoute struct {
	Method        string         // GET serves HEAD too
	Path          string         // as in [http.ServeMux], without a method
	Actions       []agent.Action // the caller must be allowed one of them; empty if Public or AnyCredential
	AnyCredential bool           // every valid credential is enough
	Public        bool           // no credential is needed
	EveryTenant   bool           // the credential must also be of every tenant
}

// Routes lists the routes of the gateway and its doors over HTTP, by path and method.
func (g *Gateway) Routes() []ServedRoute {
	var all []ServedRoute
	if g.http == nil {
		return all
	}
	s, ok := g.http.Handler.(*httpServer)
	if !ok {
		return nil // cannot happen: newHTTPServer has made it
	}
	for path, m := range s.paths {
		for method, e := range m {
			all = append(all, ServedRoute{
				Method: method, Path: path, Actions: slices.Clone(e.required.actions), AnyCredential: e.required.anyCredential,
				Public: e.required.public, EveryTenant: e.required.everyTenant,
			})
		}
	}
	slices.SortFunc(all, func(a, b ServedRoute) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return all
}
