package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strict"
)

// decodeBody reads a JSON body strictly: an unknown or repeated member, a wrong type, invalid UTF-8 and anything behind the
// document are invalid, with the path of the culprit as the error's Field. A body over the bound is an overflow and is not read
// to its end.
func (s *httpServer) decodeBody(w http.ResponseWriter, r *http.Request, into any) error {
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	data, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	return decodeJSON(data, into)
}

// readBody reads a body, within its bounds of size and time.
func (s *httpServer) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := s.cfg.Limits.BodyBytes
	if r.ContentLength > limit {
		return nil, s.refuseBody(w, r, tooLarge(limit))
	}
	// The deadline is for the body alone: were it to stand, it would end a streamed answer.
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(s.cfg.Limits.ReadTimeout)); err != nil {
		return nil, fmt.Errorf("set read deadline: %w", err)
	}
	data, err := readAll(http.MaxBytesReader(w, r.Body, limit))
	if cerr := control.SetReadDeadline(time.Time{}); cerr != nil && err == nil {
		return nil, fmt.Errorf("clear read deadline: %w", cerr)
	}
	if agent.CodeOf(err) == agent.CodeOverflow {
		return nil, s.refuseBody(w, r, err)
	}
	return data, err
}

// How much of a refused body is thrown away, and for how long at most. Many clients read no answer before they have sent
// everything; hanging up on one in the middle would show it a broken connection instead of the reason (nginx: lingering close).
const (
	lingerBytes = 64 << 20
	lingerTime  = 5 * time.Second
)

// refuseBody answers at once, then throws away what the client may still be sending.
func (s *httpServer) refuseBody(w http.ResponseWriter, r *http.Request, err error) error {
	control := http.NewResponseController(w)
	duplex := control.EnableFullDuplex() // else net/http reads a part of the body before it answers
	w.Header().Set("Connection", "close")
	s.fail(w, err)
	if duplex != nil || control.Flush() != nil || r.Header.Get("Expect") != "" {
		return err // one who expects 100-continue has not begun to send
	}
	if control.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, r.Body, lingerBytes) // its end, whatever the reason, is the end of the matter
	}
	return err
}

func tooLarge(limit int64) error {
	return agent.Errorf(agent.CodeOverflow, "", "the body is larger than %d bytes", limit)
}

func checkContentType(value string) error {
	if value == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(value)
	if err != nil || media != "application/json" {
		return agent.Invalid("", "want Content-Type application/json, got %.100q", value)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return agent.Invalid("", "want charset utf-8, got %.100q", charset)
	}
	return nil
}

// readAll reads a body. Errors of the reader other than its bound mean that the client went away.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(r)
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return nil, tooLarge(tooBig.Limit)
	case err != nil:
		return nil, agent.Errorf(agent.CodeCancelled, "read body", "%w", err)
	}
	return data, nil
}

// decodeJSON reads exactly one JSON document.
func decodeJSON(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return agent.Invalid("", "the body is empty: want a JSON object")
	}
	err := strict.Decode(data, into)
	var known *agent.Error
	if errors.As(err, &known) && len(known.Field) > maxPath {
		// The caller chose this name: do not let him choose the size of our answer and of our log.
		return agent.Invalid(utf8(known.Field[:maxPath])+"…", "is no field of ours")
	}
	return err
}

// maxPath bounds the paths of fields and URLs in errors and logs.
const maxPath = 256
