package gateway

import (
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// mount serves the paths of further doors.
func (s *httpServer) mount(doors []Door) {
	byPath := map[string]methods{}
	var paths []string
	for _, d := range doors {
		for _, route := range d.Routes() {
			if byPath[route.Path] == nil {
				byPath[route.Path] = methods{}
				paths = append(paths, route.Path)
			}
			byPath[route.Path][route.Method] = s.visited(route)
		}
	}
	for _, path := range paths {
		s.route(path, byPath[path])
	}
}

// visited makes a handler of a route: the caller is known and may do such things, and an error is told in the door's own format.
func (s *httpServer) visited(route Route) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := s.visit(w, r, &route)
		if err == nil || route.Fail == nil {
			return err
		}
		if rec, ok := w.(*recorder); ok {
			rec.err = err
			if rec.status != 0 {
				return err
			}
		}
		f, status, wait := FailureOf(err)
		if wait > 0 {
			w.Header().Set("Retry-After", retrySeconds(wait))
		}
		route.Fail(w, status, f)
		return err
	}
}

func (s *httpServer) visit(w http.ResponseWriter, r *http.Request, route *Route) error {
	who, err := caller(r)
	if err != nil {
		return err
	}
	if !route.Public && !who.principal.MayAny(route.Action) {
		return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s", route.Action)
	}
	return route.Handle(w, r, &Visit{g: s.Gateway, http: s, who: who, requestID: w.Header().Get(requestIDHeader)})
}
