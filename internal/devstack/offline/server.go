package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// ModelName is the model served unless a [Config] names others.
const ModelName = "turnstone-offline"

const (
	defaultTokenDelay    = 5 * time.Millisecond
	defaultMaxConcurrent = 1024
	maxBody              = 32 << 20
)

// Config says what the model serves.
type Config struct {
	FlightsURL    string        // the sample flights API, e.g. http://127.0.0.1:8081/flights; empty: it knows no flights
	TokenDelay    time.Duration // before each token. 0: 5 ms; negative: none
	Models        []string      // names to answer to. Empty: [ModelName]
	MaxConcurrent int           // completions under way at once; more get 429. 0: 1,024
}

// Model is the offline model as an [http.Handler].
type Model struct {
	cfg   Config
	slots chan struct{}
}

// New makes the model.
func New(cfg Config) *Model {
	switch {
	case cfg.TokenDelay == 0:
		cfg.TokenDelay = defaultTokenDelay
	case cfg.TokenDelay < 0:
		cfg.TokenDelay = 0
	}
	if len(cfg.Models) == 0 {
		cfg.Models = []string{ModelName}
	}
	if cfg.MaxConcurrent <= 0 {
		cfg.MaxConcurrent = defaultMaxConcurrent
	}
	return &Model{cfg: cfg, slots: make(chan struct{}, cfg.MaxConcurrent)}
}

// ServeHTTP answers POST /v1/chat/completions, POST /v1/embeddings, GET /v1/models and GET /v1/models/{model}; any credential will do.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const models = "/v1/models"
	switch path := r.URL.Path; {
	case path == "/v1/chat/completions" && r.Method == http.MethodPost:
		m.complete(w, r)
	case path == "/v1/embeddings" && r.Method == http.MethodPost:
		m.embed(w, r)
	case path == models && r.Method == http.MethodGet:
		list := []modelInfo{}
		for _, name := range m.cfg.Models {
			list = append(list, describeModel(name))
		}
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
	case len(path) > len(models)+1 && path[:len(models)+1] == models+"/" && r.Method == http.MethodGet:
		name := path[len(models)+1:]
		if indexOf(m.cfg.Models, name) < 0 {
			writeError(w, refuse(http.StatusNotFound, "model", "model_not_found", "The model '%.100s' does not exist", name))
			return
		}
		writeJSON(w, http.StatusOK, describeModel(name))
	case path == "/v1/chat/completions" || path == "/v1/embeddings" || path == models:
		writeError(w, refuse(http.StatusMethodNotAllowed, "", "method_not_supported", "Not allowed to %s on %s.", r.Method, path))
	default:
		writeError(w, refuse(http.StatusNotFound, "", "unknown_url", "Unknown request URL: %s %.200s. Please check the URL for typos.", r.Method, path))
	}
}

type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func describeModel(name string) modelInfo {
	return modelInfo{ID: name, Object: "model", Created: 0, OwnedBy: "turnstone"}
}

// admit takes a slot and reads the request. Without either it has answered, and body is nil; done gives the slot back.
func (m *Model) admit(w http.ResponseWriter, r *http.Request) (body []byte, done func()) {
	done = func() {}
	select {
	case m.slots <- struct{}{}:
		done = func() { <-m.slots }
	default:
		e := refuse(http.StatusTooManyRequests, "", "rate_limit_exceeded", "More than %d completions at once.", m.cfg.MaxConcurrent)
		e.Type = "requests"
		w.Header().Set("Retry-After", "1")
		writeError(w, e)
		return nil, done
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			writeError(w, refuse(http.StatusRequestEntityTooLarge, "", "", "The request is larger than %d bytes.", maxBody))
			return nil, done
		}
		writeError(w, badRequest("", "", "The request could not be read."))
		return nil, done
	}
	return body, done
}

func (m *Model) complete(w http.ResponseWriter, r *http.Request) {
	body, done := m.admit(w, r)
	defer done()
	if body == nil {
		return
	}
	req, refused := decodeRequest(body, m.cfg.Models)
	if refused != nil {
		writeError(w, refused)
		return
	}
	reply, refused := m.respond(req)
	if refused != nil {
		writeError(w, refused)
		return
	}
	if reply.pace == 0 {
		reply.pace = m.cfg.TokenDelay
	}
	if req.Stream {
		stream(w, r, req, &reply)
		return
	}
	if wait(r.Context(), time.Duration(reply.tokens())*reply.pace) == nil {
		writeJSON(w, http.StatusOK, whole(req, &reply))
	}
}

// wait pauses, unless the client leaves.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err() //nolint:wrapcheck // only tested for nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // only tested for nil
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has left, or gets it
}

func writeError(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.status, map[string]*apiError{"error": e})
}

// Server is a listening model.
type Server struct {
	url    string
	server *http.Server
	done   chan error
}

// Start serves the model on an address such as 127.0.0.1:0.
func Start(ctx context.Context, addr string, cfg Config) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the offline model: %w", err)
	}
	s := &Server{
		url:    "http://" + l.Addr().String() + "/v1",
		server: &http.Server{Handler: New(cfg), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10},
		done:   make(chan error, 1),
	}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

// BaseURL is what a client is configured with, e.g. http://127.0.0.1:43121/v1.
func (s *Server) BaseURL() string { return s.url }

// Close stops listening, waits for answers under way until ctx ends, and then cuts them off.
func (s *Server) Close(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("stop the offline model: %w", err)
	}
	return nil
}
