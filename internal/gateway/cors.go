package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Headers that pages of other origins may send and read. Cookies are not allowed: a page must have a credential.
const (
	corsRequestHeaders = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Turnstone-On-Disconnect, " +
		"Traceparent, Tracestate, Turnstone-Session-Id, Turnstone-Tenant, " +
		"X-API-Key, X-Request-Id, X-Stainless-Arch, X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-OS, " +
		"X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout" // what OpenAI's clients send
	corsExposedHeaders = "ETag, Location, Retry-After, Turnstone-Plan-Hash, Turnstone-Result-Ref, Turnstone-Session-Id, Turnstone-Turn-Id, WWW-Authenticate, " +
		"X-Request-Id, X-Should-Retry, X-Trace-Id"
	corsMaxAge = "600" // seconds
)

// setCORS sets the headers that let a page read the response. [guard.check] has checked its origin.
func (g *guard) setCORS(h http.Header, r *http.Request, pathOrigins []string) {
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	if pathOrigins == nil && slices.Contains(g.origins, wildcard) {
		origin = wildcard
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposedHeaders)
}

// isPreflight reports whether a request is a CORS preflight.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers a preflight request. It needs no credential, because browsers send none.
func (s *httpServer) preflight(w http.ResponseWriter, r *http.Request) {
	_, pattern := s.mux.Handler(withReference(r))
	m, ok := s.paths[pattern]
	headers := corsRequestHeaders
	if s.pathOrigins(r) != nil {
		headers += ", " + webUIHeaders
	}
	if !ok {
		s.fail(w, agent.Errorf(agent.CodeNotFound, "", "no such path: %.200q", r.URL.Path))
		return
	}
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Method")
	h.Add("Vary", "Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", m.allowHeader())
	h.Set("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
}

// pathOrigins returns the only origins whose pages may call the path of a request, nil if the allowed origins of the gateway apply.
func (s *httpServer) pathOrigins(r *http.Request) []string {
	if s.cfg.Codec == nil || len(s.cfg.CodecOrigins) == 0 || r.Header.Get("Origin") == "" {
		return nil
	}
	if _, pattern := s.mux.Handler(withReference(r)); strings.HasPrefix(pattern, pathCodec) {
		return s.cfg.CodecOrigins
	}
	return nil
}
