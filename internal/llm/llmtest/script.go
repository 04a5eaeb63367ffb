package llmtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"
	"time"
)

// Script is a model by its answers.
type Script func(asked Sent) Scripted

// Scripted is one answer.
type Scripted struct {
	Reply   Reply
	Status  int  // a refusal with this status instead; 0: the reply
	Endless bool // the reply's words again and again, until the client leaves
}

// CallReply is a reply of one tool call.
func CallReply(id, name, args string) Reply { return callsReply(callEvents(0, id, name, args)...) }

// CallsReply is a reply of several calls of one tool.
func CallsReply(name string, calls ...[2]string) Reply {
	var events []Event
	for i, c := range calls {
		events = append(events, callEvents(i, c[0], name, c[1])...)
	}
	return callsReply(events...)
}

// Serve starts a provider that answers by a script, over its real wire format, until the test ends. The result is the base URL.
func Serve(t testing.TB, d Dialect, script Script) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked, err := d.Sent(body)
		if fits, bad := path.Match(d.Path(), r.URL.Path); err != nil || bad != nil || !fits {
			http.Error(w, "no such request", http.StatusNotFound)
			return
		}
		answer := script(asked)
		x := &exchange{w: w, r: r, dialect: d}
		if answer.Status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(answer.Status)
			x.send(d.Refusal(answer.Status, "scripted_error", "The reason."))
			return
		}
		frames := d.Frames(answer.Reply)
		if answer.Endless {
			x.send(frames[:len(frames)/2]...)
			for pace := time.NewTicker(5 * time.Millisecond); r.Context().Err() == nil; <-pace.C {
				x.send(frames[len(frames)/2-1])
			}
			return
		}
		x.send(frames...)
	}))
	t.Cleanup(srv.Close)
	return d.BaseURL(srv.URL)
}
