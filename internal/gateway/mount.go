package gateway

import (
	"cmp"
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
			needs := need{anyone: route.Public}
			if route.Action != "" {
				needs = need{actions: []agent.Action{route.Action}}
			}
			if _, ok := s.pages[route.Path]; !ok && len(route.Pages) > 0 {
				s.pages[route.Path] = pages{origins: route.Pages, headers: route.PageHeaders}
			}
			byPath[route.Path][route.Method] = endpoint{need: needs, handle: s.visited(route), fail: route.Fail}
		}
	}
	for _, path := range paths {
		s.route(path, byPath[path])
	}
}

// visited makes a handler of a route: an error is told in the door's own format.
func (s *httpServer) visited(route Route) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := s.visit(w, r, &route)
		if err == nil || route.Fail == nil {
			return err
		}
		s.failAs(w, err, route.Fail)
		return err
	}
}

func (s *httpServer) visit(w http.ResponseWriter, r *http.Request, route *Route) error {
	caller, err := callerIn(r.Context(), cmp.Or(r.Header.Get(tenantKey), r.URL.Query().Get("tenant")))
	if err != nil {
		return err
	}
	return route.Handle(w, r, &Visit{g: s.Gateway, http: s, caller: caller, requestID: caller.requestID})
}
