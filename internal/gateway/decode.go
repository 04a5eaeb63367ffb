package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// decodeBody reads a JSON body strictly. An unknown or repeated member, a wrong type, invalid UTF-8 and text after the document are
// [agent.CodeInvalid] with the path of the member as Field. A body that is too large is [agent.CodeOverflow] and not read to its end.
func (s *httpServer) decodeBody(w http.ResponseWriter, r *http.Request, into any) error {
	if err := CheckContentType(r); err != nil {
		return err
	}
	data, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	return decodeJSON(data, into)
}

// readBody reads a body within its bounds of size and time.
func (s *httpServer) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := s.cfg.Limits.BodyBytes
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, bodyError(err)
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return agent.Errorf(agent.CodeOverflow, "", "the body is larger than %d bytes", limit)
}

// CheckContentType returns an error unless the body is declared as JSON. Pages of foreign sites can send other types without a preflight.
func CheckContentType(r *http.Request) error {
	value := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(value)
	charset, declared := params["charset"]
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return unsupportedMedia("the header Content-Encoding is %.100q: send the body as it is", encoding)
	case value == "" && r.ContentLength == 0:
		return nil // decodeJSON returns the error
	case value == "":
		return unsupportedMedia("the header Content-Type is missing: send Content-Type: application/json")
	case err != nil || media != "application/json":
		return unsupportedMedia("want Content-Type: application/json, got %.100q", value)
	case declared && !strings.EqualFold(charset, "utf-8"):
		return unsupportedMedia("want Content-Type: application/json in charset utf-8, got %.100q", charset)
	}
	return nil
}

func unsupportedMedia(format string, args ...any) error {
	return &statusError{http.StatusUnsupportedMediaType, agent.Invalid("", format, args...)}
}

// statusError is an error with an HTTP status of its own.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// statusOf returns the HTTP status of an error; f is the error as callers see it.
func statusOf(err error, f *agent.Failure) int {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status
	}
	return mappingOf(f.Type).http
}

// bodyError returns the error for a body that could not be read to its end.
func bodyError(err error) error {
	if tooBig, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(tooBig.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &statusError{http.StatusRequestTimeout, agent.Errorf(agent.CodeCancelled, "", "the body took too long to arrive")}
	}
	if _, isNetwork := errors.AsType[net.Error](err); isNetwork || errors.Is(err, context.Canceled) { // the client has left
		return agent.Errorf(agent.CodeCancelled, "read body", "%w", err)
	}
	return agent.Invalid("", "the body cannot be read to its end: %w", err) // malformed chunks, or fewer bytes than the header says
}

// decodeJSON reads exactly one JSON document. It refuses null, which would otherwise pass as an object without members.
func decodeJSON(data []byte, into any) error {
	switch string(bytes.TrimSpace(data)) {
	case "":
		return agent.Invalid("", "the body is empty: want a JSON object")
	case "null":
		return agent.Invalid("", "want a JSON object, got null")
	}
	err := strictjson.Decode(data, into)
	if e := agentError(err); e != nil && len(e.Field) > maxPath {
		// The caller has chosen this name. It must not be as long as the caller likes in the response and the log.
		return agent.Invalid(clip.Bytes(e.Field, maxPath), "is not a known field")
	}
	return err
}

// maxPath bounds the paths of fields and URLs in errors and logs.
const maxPath = 256
