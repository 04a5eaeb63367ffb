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

// Paths that several files use.
const (
	pathHealth  = "/health"
	pathMetrics = "/metrics"
	pathTurns   = "/v1/turns"
	pathResults = "/v1/results/"
	pathSocket  = "/v1/ws"
)

// turnIDHeader names the turn that a response is about.
const turnIDHeader = "Turnstone-Turn-Id"

// httpServer serves the API over HTTP.
type httpServer struct {
	*Gateway

	guard guard
	mux   *http.ServeMux
	paths map[string]methods // by the patterns of the mux
}

func newHTTPServer(g *Gateway) *http.Server {
	s := &httpServer{
		Gateway: g, guard: guard{hosts: g.cfg.AllowedHosts, origins: g.cfg.AllowedOrigins, allowsAnyHost: g.cfg.Auth != nil}, mux: http.NewServeMux(),
		paths: map[string]methods{},
	}
	s.routeResources()
	s.mount(g.cfg.Doors)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		err := callerOf(r.Context()).anonymous
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
		ReadTimeout:       g.cfg.Limits.ReadTimeout, // boundBody removes it when the request has arrived: it would end streams
		IdleTimeout:       g.cfg.Limits.IdleTimeout,
		MaxHeaderBytes:    g.cfg.Limits.HeaderBytes,
		ErrorLog:          log,
		ConnState:         g.idle.track,
		TLSConfig:         g.cfg.HTTPTLS,
		// No WriteTimeout: it would end streams. The writers set their own deadlines.
		DisableGeneralOptionsHandler: true, // it answers OPTIONS * before the body is bounded
	}
}

// handler returns the server inside the configured middleware for traces, which reads the route from the Pattern of its own request. The mux
// sets that of a copy.
func (s *httpServer) handler() http.Handler {
	if s.cfg.Trace == nil {
		return s
	}
	return s.cfg.Trace(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _, r.Pattern = s.mux.Handler(r) }()
		s.ServeHTTP(w, r)
	}))
}

// routeResources registers the paths of all resources, those of optional ports only if there is the port.
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

// routeOperations registers the paths for operators.
func (s *httpServer) routeOperations() {
	s.route("/v1/doctor", methods{http.MethodPost: requires(s.serve(tenantUnambiguous, s.postDoctor), agent.ActionDoctorRun)})
	s.route(pathHealth, methods{http.MethodGet: {required: requirement{public: true}, handle: s.getHealth}})
	s.route("/v1/whoami", methods{http.MethodGet: {
		required: requirement{anyCredential: true}, handle: s.answerWithoutQuery(tenantUnambiguous, s.getWhoami),
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
		s.route("/v1/audit", methods{http.MethodGet: requires(s.answer(tenantUnambiguous, s.getAudit), agent.ActionAuditRead)})
	}
	if s.cfg.Usage != nil {
		s.route("/v1/usage", methods{http.MethodGet: requires(s.answer(tenantHeaderFirst, s.getUsage), agent.ActionUsageRead)})
	}
}

// errorBody is the body of an error response.
type errorBody struct {
	Error *agent.Failure `json:"error"`
}

// write writes a JSON response. It ignores errors, because they only mean that the client has left.
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

// extendWrite gives the client another WriteTimeout to read the next bytes.
func (s *httpServer) extendWrite(w http.ResponseWriter) {
	// It fails only for a writer without deadlines, such as a recorder.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.cfg.Limits.WriteTimeout))
}

// EncodeJSON returns the JSON of v on one line, with a newline at its end and without HTML escapes.
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

// retrySeconds returns the value of a Retry-After header, in full seconds, rounded up.
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
