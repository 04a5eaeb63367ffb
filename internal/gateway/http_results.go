package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// resultRefHeader carries the canonical reference of a result.
const resultRefHeader = "Turnstone-Result-Ref"

// copyBytes is how much of a result is written under one deadline.
const copyBytes = 256 << 10

// digestPattern is a content address without its scheme, as the rest of a path.
var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// getResults is what lies behind /v1/results/: the slashes of a reference need no escape, so the mux cannot tell where it ends.
func (s *httpServer) getResults(w http.ResponseWriter, r *http.Request) error {
	ref, rows := strings.CutSuffix(r.PathValue("ref"), "/data")
	ref, err := resultRef(ref)
	switch {
	case err != nil:
		return err
	case rows:
		return s.getData(w, r, ref)
	default:
		return s.getResult(w, r, ref)
	}
}

// getResult is GET /v1/results/{ref}: the stored document itself, streamed. ref is a result id, a turn id, a job id, or a reference, whose
// slashes may be escaped or not.
func (s *httpServer) getResult(w http.ResponseWriter, r *http.Request, ref string) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	ctx, cancel := s.whileOpen(r.Context())
	defer cancel()
	v, err := s.open(ctx, cancel, caller, ref)
	if err != nil {
		return err
	}
	defer v.Body.Close() //nolint:errcheck // read-only
	h := w.Header()
	h.Set("Content-Type", mediaTypeOf(v.MediaType))
	h.Set("Cache-Control", "no-store")
	h.Set(resultRefHeader, v.Ref)
	if v.TurnID != "" {
		h.Set(turnIDHeader, string(v.TurnID))
	}
	if v.Size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(v.Size, 10))
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := &bodyWriter{ctx: ctx, s: s, w: w, begun: true}
	if _, err := io.CopyBuffer(out, struct{ io.Reader }{v.Body}, make([]byte, copyBytes)); err != nil {
		return s.breakOff(w, out, fmt.Errorf("send result %s: %w", v.Ref, err))
	}
	return nil
}

// bodyWriter writes a body that may take long: as long as the client takes what comes, and the gateway does not close.
type bodyWriter struct {
	ctx    context.Context
	s      *httpServer
	w      http.ResponseWriter
	header func(http.Header) // sets what the response begins with, before its first byte
	begun  bool
	err    error // why nothing more can be written
}

func (o *bodyWriter) begin() {
	if o.begun {
		return
	}
	o.begun = true
	o.header(o.w.Header())
	o.w.WriteHeader(http.StatusOK)
}

// Write implements [io.Writer].
func (o *bodyWriter) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	if o.ctx.Err() != nil {
		o.err = context.Cause(o.ctx)
		return 0, o.err
	}
	o.begin()
	o.s.extendWrite(o.w)
	n, err := o.w.Write(p)
	if err != nil {
		o.err = fmt.Errorf("%w: %w", errGone, err)
	}
	return n, o.err
}

// breakOff ends a body in the middle. The connection is cut, because a response that ends in good order is taken for whole: clients see
// an unexpected end, whatever the encoding.
func (s *httpServer) breakOff(w http.ResponseWriter, out *bodyWriter, err error) error {
	if out.err != nil {
		err = out.err // whatever the reader's side made of it
	}
	if errors.Is(err, errGone) || errors.Is(err, context.Canceled) { // nobody is left to tell, and nobody is at fault
		err = agent.Errorf(agent.CodeCancelled, "", "%w", err)
	}
	s.fail(w, err)              // for the log
	panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut off a response that has begun
}

// open opens a result for a caller.
func (g *Gateway) open(ctx context.Context, cancel context.CancelFunc, caller identity, ref string) (ResultView, error) {
	return opening(g, cancel, func() (ResultView, error) { return g.cfg.Runtime.Result(ctx, caller.lookupTenant(), ref) })
}

// opening bounds how long something takes to open. Reading goes on for as long as the client takes what comes and the context lasts, so
// the bound cannot be a deadline of that context: cancel ends it.
func opening[T any](g *Gateway, cancel context.CancelFunc, open func() (T, error)) (T, error) {
	bound := time.AfterFunc(g.cfg.Limits.CallTimeout, cancel)
	v, err := open()
	if !bound.Stop() && err != nil {
		return v, context.DeadlineExceeded
	}
	return v, err
}

// resultRef accepts artifact://x, artifact:/x (what a path cleaner makes of it), cas://x likewise, sha256:<hex> for cas://sha256:<hex>,
// and a bare id.
func resultRef(ref string) (string, error) {
	for _, scheme := range []string{"artifact:", "cas:"} {
		if rest, ok := strings.CutPrefix(ref, scheme); ok {
			ref = scheme + "//" + strings.TrimLeft(rest, "/")
		}
	}
	if digestPattern.MatchString(ref) {
		ref = "cas://" + ref
	}
	if ref == "" || checkLine("", ref, maxPath) != nil {
		return "", agent.Errorf(agent.CodeNotFound, "", "no result %.140q", ref)
	}
	return ref, nil
}

// mediaTypeOf never lets stored content pass as something that a browser would run.
func mediaTypeOf(stored string) string {
	if stored == "" {
		return "application/json"
	}
	if _, _, err := mime.ParseMediaType(stored); err != nil {
		return "application/octet-stream"
	}
	return stored
}
