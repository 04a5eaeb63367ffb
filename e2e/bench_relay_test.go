package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// The test binary started with these variables is a plain relay, so that a benchmark can read the processor time of one.
const (
	relayAddr  = "TURNSTONE_E2E_RELAY_ADDR"
	relayModel = "TURNSTONE_E2E_RELAY_MODEL" // URL of the model's server
)

// serveRelay runs a relay until standard input ends, as serveTemporal does.
func serveRelay(addr string) int {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("POST /", relay{model: os.Getenv(relayModel) + llmtest.OpenAI{}.Path(), client: benchClient()})
	server := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Fprintln(os.Stderr, "relay:", server.ListenAndServe())
	return 1
}

// benchClient returns an HTTP client that keeps the connections of as many streams as a benchmark opens.
func benchClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}}
}

// relay asks the model what it is asked and passes each token on as a server-sent event. It stores nothing: it is what a streamed answer
// costs at least.
type relay struct {
	model  string // URL
	client *http.Client
}

func (p relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in agent.TurnRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, llmtest.ModelName, in.Message)
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, p.model, strings.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer, err := p.client.Do(ask)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		data, _ := strings.CutPrefix(lines.Text(), "data: ")
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if data == "[DONE]" {
			fmt.Fprintf(w, "data: {\"type\":%q,\"status\":%q}\n\n", agent.EventStatus, agent.StatusCompleted)
		} else if json.Unmarshal([]byte(data), &chunk) == nil && len(chunk.Choices) == 1 && chunk.Choices[0].Delta.Content != "" {
			fmt.Fprintf(w, "data: {\"type\":%q,\"text\":%q}\n\n", agent.EventToken, chunk.Choices[0].Delta.Content)
			_ = http.NewResponseController(w).Flush() // a client that left ends the request
		}
	}
}
