package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Paths that more than one file names.
const (
	pathHealth  = "/health"
	pathMetrics = "/metrics"
	pathTurns   = "/v1/turns"
	pathResults = "/v1/results/"
	pathSocket  = "/v1/ws"
)

// turnIDHeader names the turn that a response is about.
const turnIDHeader = "Turnstone-Turn-Id"

// httpServer is the HTTP door.
type httpServer struct {
	*Gateway

	guard guard
	mux   *http.ServeMux
	paths map[string]methods // by their patterns
}

func newHTTPServer(g *Gateway) *http.Server {
	s := &httpServer{
		Gateway: g, guard: guard{hosts: g.cfg.AllowedHosts, origins: g.cfg.AllowedOrigins, anyHost: g.cfg.Auth != nil}, mux: http.NewServeMux(),
		paths: map[string]methods{},
	}
	s.routeResources()
	s.mount(g.cfg.Doors)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		caller, err := callerOf(r.Context())
		if err == nil && caller.anonymous != nil {
			err = caller.anonymous
		}
		if err == nil {
			err = s.noSuchPath(r.URL.Path)
		}
		s.fail(w, err)
	})
	log, err := zap.NewStdLogAt(g.cfg.Logger, zap.DebugLevel)
	if err != nil {
		log = nil // cannot happen for a level that exists; nil is the standard logger
	}
	return &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: g.cfg.Limits.ReadTimeout,
		ReadTimeout:       g.cfg.Limits.ReadTimeout, // boundBody lifts it when the request has arrived: else it would end streams
		IdleTimeout:       g.cfg.Limits.IdleTimeout,
		MaxHeaderBytes:    g.cfg.Limits.HeaderBytes,
		ErrorLog:          log,
		ConnState:         g.idle.track,
		TLSConfig:         g.cfg.HTTPTLS,
		// No WriteTimeout: it would end streams. The writers set their own deadlines.
		DisableGeneralOptionsHandler: true, // it answers OPTIONS * before the body is bounded
	}
}

// handler returns the server, within the configured middleware for traces. The mux writes the route into a copy of the request, so the
// middleware reads it from there.
func (s *httpServer) handler() http.Handler {
	if s.cfg.Trace == nil {
		return s
	}
	return s.cfg.Trace(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _, r.Pattern = s.mux.Handler(r) }()
		s.ServeHTTP(w, r)
	}))
}

// routeResources registers the paths of all resources. Those of optional ports exist only if the port does.
func (s *httpServer) routeResources() {
	s.routeTurns()
	s.routeResults()
	s.routeSessions()
	s.routeApprovals()
	s.routeKnowledge()
	s.routeCatalog()
	s.routeWorkflows()
	s.routeRuns()
	s.routeComposites()
	s.routeOperations()
	if s.cfg.Keys != nil {
		s.routeKeys()
	}
	if s.cfg.Schedules != nil {
		s.routeSchedules()
	}
	if s.cfg.Links != nil {
		s.routeLinks()
	}
	if s.cfg.Retention != nil {
		s.routeRetention()
	}
	if s.cfg.Erasures != nil {
		s.routeErasures()
	}
	if s.cfg.Codec != nil {
		s.routeCodec()
	}
}

// routeOperations registers the paths for those who run the system.
func (s *httpServer) routeOperations() {
	s.route("/v1/doctor", methods{http.MethodPost: requires(s.serve(tenantAgreed, s.postDoctor), agent.ActionDoctorRun)})
	s.route(pathHealth, methods{http.MethodGet: {required: requirement{public: true}, handle: s.getHealth}})
	s.route("/v1/whoami", methods{http.MethodGet: {
		required: requirement{anyCredential: true}, handle: s.answerPlain(tenantAgreed, s.getWhoami),
	}})
	if s.cfg.Metrics != nil {
		s.route(pathMetrics, methods{http.MethodGet: {
			required: requirement{actions: []agent.Action{agent.ActionMetricsRead}, everyTenant: true},
			handle: func(w http.ResponseWriter, r *http.Request) error {
				s.cfg.Metrics.ServeHTTP(w, r)
				return nil
			},
		}})
	}
	if s.cfg.Audit != nil {
		s.route("/v1/audit", methods{http.MethodGet: requires(s.answer(tenantAgreed, s.getAudit), agent.ActionAuditRead)})
	}
	if s.cfg.Usage != nil {
		s.route("/v1/usage", methods{http.MethodGet: requires(s.answer(tenantEither, s.getUsage), agent.ActionUsageRead)})
	}
}

// errorBody is the body of every response that is an error.
type errorBody struct {
	Error *agent.Failure `json:"error"`
}

// write answers with JSON. An error of writing is the client's going away and of no interest.
func (s *httpServer) write(w http.ResponseWriter, status int, v any) {
	body, err := EncodeJSON(v)
	if err != nil {
		s.cfg.Logger.Error("encode response", zap.Error(err))
		status, body = http.StatusInternalServerError, []byte(`{"error":{"type":"internal","message":"internal error","retryable":false}}`+"\n")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	s.extendWrite(w)
	w.WriteHeader(status)
	_, _ = bytes.NewReader(body).WriteTo(w)
}

// extendWrite gives the client another WriteTimeout to take what comes next.
func (s *httpServer) extendWrite(w http.ResponseWriter) {
	// An error means that the writer has no deadlines, as in a test with a recorder.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.cfg.Limits.WriteTimeout))
}

// EncodeJSON returns JSON on one line, ending in a newline, without HTML escapes: nobody embeds this in a page.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := newEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func newEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// retrySeconds renders a Retry-After, rounding up so that nobody comes too early.
func retrySeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

func wholeNumber(name, value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, agent.Invalid(name, "want a whole number of 0 or more, got %.60q", value)
	}
	return n, nil
}
