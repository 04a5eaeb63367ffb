package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// requestIDHeader names a request across systems; a sane one is kept, any other replaced.
const requestIDHeader = "X-Request-Id"

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// recorder notes status, size and error of a response for the access log.
type recorder struct {
	http.ResponseWriter
	request *http.Request
	body    *requestBody // nil: there is none
	status  int          // 0 until the header is written
	bytes   int64
	err     error // what the handler failed with
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		if status != http.StatusSwitchingProtocols {
			r.body.beginAnswer(r.Header(), r.request)
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// end ends the answer. A handler that wrote nothing has answered 200, and one that took the connection over has ended it by itself.
func (r *recorder) end() {
	if r.body == nil || r.status == http.StatusSwitchingProtocols {
		return
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.body.endAnswer(r.request)
}

// ServeHTTP is the outside of every HTTP request: id, guard, who calls, panic net, access log.
func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	body, r := s.boundBody(w, r)
	rec := &recorder{ResponseWriter: w, request: r, body: body}
	id := r.Header.Get(requestIDHeader)
	if !requestIDPattern.MatchString(id) {
		id = uuid.NewString()
	}
	h := w.Header()
	h.Set(requestIDHeader, id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")

	defer func() {
		p := recover()
		begun := rec.status != 0
		if p != nil && !begun {
			s.fail(rec, fmt.Errorf("panic: %v", p))
		}
		s.logRequest(r, rec, id, time.Since(start), p)
		if p != nil && begun {
			panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut off a response that has begun
		}
		rec.end()
	}()
	origins := s.pathOrigins(r)
	if err := s.guard.check(r, origins); err != nil {
		s.fail(rec, err)
		return
	}
	s.guard.setCORS(h, r, origins)
	if isPreflight(r) {
		s.preflight(rec, r)
		return
	}
	identified, err := s.identifyRequest(r, id)
	if err != nil {
		s.failFor(rec, r, err)
		return
	}
	// The log line names the route, which the mux notes in the request that it is given.
	r = withReference(identified)
	s.mux.ServeHTTP(rec, r)
}

// withReference returns a request whose path may hold a reference, artifact://… or cas://…. The mux would redirect a path with two slashes.
func withReference(r *http.Request) *http.Request {
	if !strings.HasPrefix(r.URL.Path, pathResults) || !strings.Contains(r.URL.Path, "//") {
		return r
	}
	clean := r.Clone(r.Context())
	clean.URL.Path = path.Clean(r.URL.Path) // resultRef puts the second slash back
	clean.URL.RawPath = ""
	return clean
}

// logRequest writes the one log line of a request. Probes are logged at debug, our own faults at error.
func (s *httpServer) logRequest(r *http.Request, rec *recorder, id string, took time.Duration, panicked any) {
	level := zapcore.InfoLevel
	fields := []zap.Field{
		zap.String("method", r.Method), zap.String("path", clip.Bytes(r.URL.Path, maxPath)), zap.String("route", r.Pattern),
		zap.Int("status", rec.status), zap.Int64("bytes", rec.bytes), zap.Duration("took", took),
		zap.String("remote", r.RemoteAddr), zap.String("request_id", id),
	}
	switch {
	case panicked != nil && panicked != http.ErrAbortHandler: //nolint:errorlint // net/http, too, takes no wrapped one
		level = zapcore.ErrorLevel
		fields = append(fields, zap.Any("panic", panicked), zap.ByteString("stack", debug.Stack()))
	case rec.err != nil && failureOf(rec.err).Type == string(agent.CodeInternal):
		level = zapcore.ErrorLevel
	case r.Pattern == pathHealth || r.Pattern == pathMetrics:
		level = zapcore.DebugLevel
	}
	if rec.err != nil {
		fields = append(fields, errorField(rec.err))
	}
	s.cfg.Logger.Log(level, "http request", fields...)
}

// errorField returns an error for the log, cut to a bounded length.
func errorField(err error) zap.Field {
	return zap.String("error", validText(clip.Bytes(err.Error(), maxLogged)))
}

const maxLogged = 16 << 10

// handler is an HTTP handler that may fail: the error becomes the response, unless that has begun.
type handler func(w http.ResponseWriter, r *http.Request) error

// allowed lists the methods of a path, as in the header Allow.
func (m methods) allowed() string {
	var all []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if _, ok := m.method(method); ok {
			all = append(all, method)
		}
	}
	return strings.Join(all, ", ")
}

func (s *httpServer) route(path string, m methods) {
	s.paths[path] = m
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		e, ok := m.method(r.Method)
		if !ok {
			allow := m.allowed()
			w.Header().Set("Allow", allow)
			s.write(w, http.StatusMethodNotAllowed, errorBody{Error: &agent.Failure{
				Type: string(agent.CodeInvalid), Message: fmt.Sprintf("%.20s is not allowed here, only %s", r.Method, allow),
			}})
			return
		}
		caller, err := callerOf(r.Context())
		if err == nil {
			caller.action = e.required.auditAction()
			r = r.WithContext(caller.withContext(r.Context()))
			err = e.required.check(caller, r.Method+" "+r.URL.Path)
		}
		switch {
		case err == nil:
			err = e.handle(w, r)
		case e.errorBody != nil:
			s.failAs(w, err, e.errorBody)
			return
		}
		if err != nil {
			s.fail(w, err)
		}
	})
}

// fail answers with an error, once.
func (s *httpServer) fail(w http.ResponseWriter, err error) {
	s.failAs(w, err, func(_ int, f *agent.Failure) any { return errorBody{Error: f} })
}

// failFor answers with an error before the request has reached its route, in the format of the API that was asked for.
func (s *httpServer) failFor(w http.ResponseWriter, r *http.Request, err error) {
	_, pattern := s.mux.Handler(r)
	if e, ok := s.paths[pattern][r.Method]; ok && e.errorBody != nil {
		s.failAs(w, err, e.errorBody)
		return
	}
	s.fail(w, err)
}

// failAs answers with an error in the format of another API.
func (s *httpServer) failAs(w http.ResponseWriter, err error, body ErrorBody) {
	if rec, ok := w.(*recorder); ok {
		if rec.err == nil {
			rec.err = err
		}
		if rec.status != 0 {
			return // too late: the response has begun
		}
	}
	f := failureOf(err)
	setErrorHeaders(w.Header(), err, f)
	status := statusOf(err, f)
	s.write(w, status, body(status, f))
}

// setErrorHeaders sets the headers that tell a client what to do about an error.
func setErrorHeaders(h http.Header, err error, f *agent.Failure) {
	if wait := retryAfterOf(err, f); wait > 0 {
		h.Set("Retry-After", retrySeconds(wait))
	}
	if f.Type == string(agent.CodeUnauthenticated) {
		challenge := `Bearer realm="turnstone"`
		if !errors.Is(err, errNoCredential) {
			challenge += `, error="invalid_token"`
		}
		h.Set("WWW-Authenticate", challenge)
	}
}
