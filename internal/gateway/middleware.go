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

// requestIDHeader holds the id of a request across systems. The gateway replaces an id that does not match requestIDPattern.
const requestIDHeader = "X-Request-Id"

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// recorder records status, size and error of a response for the access log.
type recorder struct {
	http.ResponseWriter
	request *http.Request
	body    *requestBody // nil for a request without a body
	status  int          // 0 until the header is written
	bytes   int64
	err     error // of the handler
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		if status != http.StatusSwitchingProtocols {
			r.body.beginResponse(r.Header(), r.request)
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

// finish completes the response: with status 200 if the handler wrote nothing, and not at all if the handler took the connection over.
func (r *recorder) finish() {
	if r.body == nil || r.status == http.StatusSwitchingProtocols {
		return
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.body.endResponse(r.request)
}

// ServeHTTP gives a request its id, checks its origin, identifies its caller, calls the mux, recovers from panics, and writes the access log.
func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	body, r := s.boundBody(w, r)
	rec := &recorder{ResponseWriter: w, request: r, body: body}
	id := chooseRequestID(r)
	h := w.Header()
	h.Set(requestIDHeader, id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")

	defer func() {
		p := recover()
		isBegun := rec.status != 0
		if p != nil && !isBegun {
			s.fail(rec, fmt.Errorf("panic: %v", p))
		}
		s.logRequest(r, rec, id, time.Since(start), p)
		if p != nil && isBegun {
			panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut off a response that has begun
		}
		rec.finish()
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
		s.failRequest(rec, r, err)
		return
	}
	r = withReference(identified) // the mux sets its Pattern, which logRequest reads
	s.mux.ServeHTTP(rec, r)
}

// chooseRequestID returns the id that the client gave to a request, or a new one.
func chooseRequestID(r *http.Request) string {
	if id := r.Header.Get(requestIDHeader); requestIDPattern.MatchString(id) {
		return id
	}
	return uuid.NewString()
}

// withReference returns a request that the mux can route although its path holds a reference, artifact://… or cas://…. The mux would redirect
// a path with two slashes.
func withReference(r *http.Request) *http.Request {
	if !strings.HasPrefix(r.URL.Path, pathResults) || !strings.Contains(r.URL.Path, "//") {
		return r
	}
	clean := r.Clone(r.Context())
	clean.URL.Path = path.Clean(r.URL.Path) // resultRef puts the second slash back
	clean.URL.RawPath = ""
	return clean
}

// logRequest writes the log line of a request, for probes at level debug and for internal errors at level error.
func (s *httpServer) logRequest(r *http.Request, rec *recorder, id string, took time.Duration, panicked any) {
	level := zapcore.InfoLevel
	fields := []zap.Field{
		zap.String("method", r.Method), zap.String("path", clip.Bytes(r.URL.Path, maxPath)), zap.String("route", r.Pattern),
		zap.Int("status", rec.status), zap.Int64("bytes", rec.bytes), zap.Duration("took", took),
		zap.String("remote", r.RemoteAddr), zap.String("request_id", id),
	}
	switch {
	case panicked != nil && panicked != http.ErrAbortHandler: //nolint:errorlint // net/http compares it in the same way
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

// errorField returns an error as a log field of bounded length.
func errorField(err error) zap.Field {
	const maxBytes = 16 << 10
	return zap.String("error", validText(clip.Bytes(err.Error(), maxBytes)))
}

// handler is an HTTP handler whose error becomes the response, unless the response has begun.
type handler func(w http.ResponseWriter, r *http.Request) error

// allowHeader returns the value of the Allow header of a path.
func (m methods) allowHeader() string {
	var all []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if _, ok := m.method(method); ok {
			all = append(all, method)
		}
	}
	return strings.Join(all, ", ")
}

// route registers the endpoints of a path.
func (s *httpServer) route(path string, m methods) {
	s.paths[path] = m
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		e, ok := m.method(r.Method)
		if !ok {
			allow := m.allowHeader()
			w.Header().Set("Allow", allow)
			s.write(w, http.StatusMethodNotAllowed, errorBody{Error: &agent.Failure{
				Type: string(agent.CodeInvalid), Message: fmt.Sprintf("%.20s is not allowed here, only %s", r.Method, allow),
			}})
			return
		}
		caller := callerOf(r.Context())
		caller.action = e.required.auditAction()
		r = r.WithContext(caller.withContext(r.Context()))
		err := e.required.check(caller, r.Method+" "+r.URL.Path)
		if err == nil {
			err = e.handle(w, r)
		}
		if err != nil {
			s.failAs(w, err, e.errorBody)
		}
	})
}

// fail writes an error response.
func (s *httpServer) fail(w http.ResponseWriter, err error) { s.failAs(w, err, nil) }

// failRequest writes an error response, in the format of the requested API, to a request that has not reached its route.
func (s *httpServer) failRequest(w http.ResponseWriter, r *http.Request, err error) {
	_, pattern := s.mux.Handler(r)
	s.failAs(w, err, s.paths[pattern][r.Method].errorBody)
}

// failAs writes an error response, unless the response has begun, and records the error for the access log. A nil body means an errorBody.
func (s *httpServer) failAs(w http.ResponseWriter, err error, body ErrorBody) {
	if rec, ok := w.(*recorder); ok {
		if rec.err == nil {
			rec.err = err
		}
		if rec.status != 0 {
			return
		}
	}
	f := failureOf(err)
	setErrorHeaders(w.Header(), err, f)
	status := statusOf(err, f)
	if body == nil {
		s.write(w, status, errorBody{Error: f})
		return
	}
	s.write(w, status, body(status, f))
}

// setErrorHeaders sets Retry-After and WWW-Authenticate where the error calls for them.
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
