package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Paths that other code of this package names.
const (
	pathHealth  = "/health"
	pathMetrics = "/metrics"
	pathTurns   = "/v1/turns"
	pathResults = "/v1/results/"
	pathSocket  = "/v1/ws"
	pathKeys    = "/v1/keys"
)

// Paths of what has more than one.
const (
	pathApprovals = "/v1/approvals"
	pathSession   = "/v1/sessions/{id}"
	pathKnowledge = "/v1/knowledge/{collection}"

	pathWorkflows  = "/v1/workflows"
	pathRuns       = "/v1/runs"
	pathComposites = "/v1/tools/composites"
)

// turnIDHeader names the turn that a response is about.
const turnIDHeader = "Turnstone-Turn-Id"

// httpServer is the HTTP door.
type httpServer struct {
	*Gateway

	guard guard
	mux   *http.ServeMux
	paths map[string]methods // by their patterns
	pages map[string]pages   // of the paths that have their own, likewise
}

func newHTTPServer(g *Gateway) *http.Server {
	s := &httpServer{
		Gateway: g, guard: guard{hosts: g.cfg.AllowedHosts, origins: g.cfg.AllowedOrigins, anyHost: g.cfg.Auth != nil}, mux: http.NewServeMux(),
		paths: map[string]methods{}, pages: map[string]pages{},
	}
	s.routeTurns()
	s.routeCatalog()
	s.routeWorkflows()
	s.routeData()
	s.routeOperations()
	s.mount(g.cfg.Doors)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		caller, err := callerOf(r.Context())
		if err == nil && caller.anonymous != nil {
			err = caller.anonymous
		}
		if err == nil {
			err = agent.Errorf(agent.CodeNotFound, "", "no such path: %.200q", r.URL.Path)
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
		ConnState:         g.unused.note,
		TLSConfig:         g.cfg.HTTPTLS,
		// No WriteTimeout: it would end streams. The writers set their own deadlines.
		DisableGeneralOptionsHandler: true, // it answers OPTIONS * before the body is bounded
	}
}

// handler is the server with what is configured to go around it, which learns the route from its own request: the mux notes it in a copy.
func (s *httpServer) handler() http.Handler {
	if s.cfg.Trace == nil {
		return s
	}
	return s.cfg.Trace(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _, r.Pattern = s.mux.Handler(r) }()
		s.ServeHTTP(w, r)
	}))
}

func (s *httpServer) routeTurns() {
	s.route(pathTurns, methods{http.MethodPost: needs(s.postTurn, agent.ActionTurnsRun)})
	s.route("/v1/turns/{id}", methods{http.MethodGet: needs(s.getTurn, agent.ActionTurnsRead)})
	s.route("/v1/turns/{id}/events", methods{http.MethodGet: needs(s.getEvents, agent.ActionTurnsRead)})
	s.route("/v1/turns/{id}/decisions", methods{http.MethodPost: needs(s.postDecision, agent.ActionApprovalsDecide)})
	s.route("/v1/turns/{id}/results", methods{http.MethodPost: needs(s.postProvided, agent.ActionTurnsRun)})
	s.route("/v1/turns/{id}/cancel", methods{http.MethodPost: needs(s.postCancel, agent.ActionTurnsCancel)})
	s.route("/v1/turns/{id}/messages", methods{http.MethodPost: needs(s.postMessage, agent.ActionTurnsRun)})
	s.route(pathTestChat, methods{http.MethodPost: needs(s.postTestChat, agent.ActionTurnsRun)})
	s.route("/v1/agents", methods{http.MethodGet: needs(s.getAgents, agent.ActionAgentsRead)})
	s.route("/v1/routes/dry-run", methods{http.MethodPost: needs(s.postRoute, agent.ActionAgentsRead)})
}

func (s *httpServer) routeData() {
	s.route(pathResults+"{ref...}", methods{http.MethodGet: needs(s.getResults, agent.ActionResultsRead)})
	s.route(pathApprovals, methods{http.MethodGet: needs(s.getApprovals, agent.ActionApprovalsRead)})
	s.route(pathApprovals+"/{id}", methods{http.MethodGet: needs(s.getApproval, agent.ActionApprovalsRead)})
	s.route(pathSession, methods{http.MethodDelete: needs(s.deleteSession, agent.ActionSessionsDelete)})
	s.route(pathSession+"/messages", methods{http.MethodGet: needs(s.getMessages, agent.ActionSessionsRead)})
	s.route(pathSession+"/export", methods{http.MethodGet: needs(s.getExport, agent.ActionSessionsRead)})
	s.route(pathKnowledge+"/documents", methods{
		http.MethodGet: needs(s.getKnowledge, agent.ActionKnowledgeRead), http.MethodPost: needs(s.postKnowledge, agent.ActionKnowledgeWrite),
	})
	s.route(pathKnowledge+"/documents/{id...}", methods{http.MethodDelete: needs(s.deleteKnowledge, agent.ActionKnowledgeWrite)})
	s.route(pathKnowledge+"/search", methods{http.MethodGet: needs(s.searchKnowledge, agent.ActionKnowledgeRead)})
}

// routeOperations are the paths of those who run the system.
func (s *httpServer) routeOperations() {
	s.route("/v1/doctor", methods{http.MethodPost: needs(s.postDoctor, agent.ActionDoctorRun)})
	s.route(pathHealth, methods{http.MethodGet: public(s.getHealth)})
	s.route("/v1/whoami", methods{http.MethodGet: {need: need{known: true}, handle: s.getWhoami}})
	if s.cfg.Metrics != nil {
		s.route(pathMetrics, methods{http.MethodGet: {
			need: need{actions: []agent.Action{agent.ActionMetricsRead}, everywhere: true},
			handle: func(w http.ResponseWriter, r *http.Request) error {
				s.cfg.Metrics.ServeHTTP(w, r)
				return nil
			},
		}})
	}
	if s.cfg.Audit != nil {
		s.route("/v1/audit", methods{http.MethodGet: needs(s.getAudit, agent.ActionAuditRead)})
	}
	if s.cfg.Keys != nil {
		s.route(pathKeys, methods{
			http.MethodGet: needs(s.getKeys, agent.ActionKeysRead), http.MethodPost: needs(s.postKey, agent.ActionKeysWrite),
		})
		s.route(pathKeys+"/{id}", methods{http.MethodDelete: needs(s.deleteKey, agent.ActionKeysWrite)})
		s.route(pathKeys+"/{id}/rotate", methods{http.MethodPost: needs(s.rotateKey, agent.ActionKeysWrite)})
	}
}

// errorBody is the body of every response that is an error.
type errorBody struct {
	Error *agent.Failure `json:"error"`
}

// write answers with JSON. An error of writing is the client's going away and of no interest.
func (s *httpServer) write(w http.ResponseWriter, status int, v any) {
	body, err := encode(v)
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

// encode writes JSON on one line, ending in a newline, without HTML escapes: nobody embeds this in a page.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// call bounds a call that does not wait for a turn.
func (s *httpServer) call(r *http.Request) (context.Context, context.CancelFunc) {
	return s.bounded(r.Context())
}

// retrySeconds renders a Retry-After, rounding up so that nobody comes too early.
func retrySeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// queryInt reads a whole number of 0 or more from the query; name is also the field of the error.
func queryInt(r *http.Request, name string) (int64, error) {
	return wholeNumber(name, cmp.Or(r.URL.Query().Get(name), "0"))
}

func wholeNumber(name, value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, agent.Invalid(name, "want a whole number of 0 or more, got %.60q", value)
	}
	return n, nil
}
