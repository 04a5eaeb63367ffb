package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// ModelName is the name of the model.
const ModelName = "turnstone-offline"

const maxBody = 32 << 20

// Config is the configuration of [Start].
type Config struct {
	FlightsURL string        // URL of the sample flights API, such as http://127.0.0.1:8081/flights
	TokenDelay time.Duration // delay of each token; 0: 5 ms; negative: no delay
}

// model is the offline model as an [http.Handler].
type model struct {
	cfg     Config
	prompts []prompt
	clauses [][]prompt
}

func newModel(cfg Config) *model {
	cfg.TokenDelay = cmp.Or(cfg.TokenDelay, 5*time.Millisecond)
	return &model{cfg: cfg, prompts: prompts(), clauses: clauses()}
}

// ServeHTTP answers POST /v1/chat/completions and POST /v1/embeddings with any credential.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch {
	case err != nil:
		writeError(w, refusal(http.StatusBadRequest, "", "The request could not be read, or is larger than %d bytes.", maxBody))
	case r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions":
		m.complete(w, r, body)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/embeddings":
		embed(w, body)
	default:
		writeError(w, refusal(http.StatusNotFound, "unknown_url", "Unknown request URL: %s %.200s.", r.Method, r.URL.Path))
	}
}

func (m *model) complete(w http.ResponseWriter, r *http.Request, body []byte) {
	req, refused := decodeRequest(body)
	if refused != nil {
		writeError(w, refused)
		return
	}
	reply := m.respond(req)
	if reply.pace == 0 {
		reply.pace = m.cfg.TokenDelay
	}
	if req.Stream {
		stream(w, r, req, &reply)
	} else if sleep(r.Context(), time.Duration(reply.tokens())*reply.pace) == nil {
		writeJSON(w, http.StatusOK, completion(req, &reply))
	}
}

// sleep pauses for d, or until ctx ends, and then returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails if the client has left
}

func writeError(w http.ResponseWriter, e *apiError) { writeJSON(w, e.status, object{"error": e}) }

// Server is an HTTP server of the model.
type Server struct {
	url    string
	server *http.Server
}

// Start starts a server of the model on an address such as 127.0.0.1:0.
func Start(ctx context.Context, addr string, cfg Config) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the offline model: %w", err)
	}
	s := &Server{
		url:    "http://" + l.Addr().String() + "/v1",
		server: &http.Server{Handler: newModel(cfg), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute},
	}
	go func() { _ = s.server.Serve(l) }() // returns after Close
	return s, nil
}

// BaseURL returns the base URL for clients, such as http://127.0.0.1:43121/v1.
func (s *Server) BaseURL() string { return s.url }

// Close waits for open requests until ctx ends, and then closes their connections.
func (s *Server) Close(ctx context.Context) error {
	if err := s.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("stop the offline model: %w", errors.Join(err, s.server.Close()))
	}
	return nil
}
