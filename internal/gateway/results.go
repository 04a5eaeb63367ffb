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

// digestPattern matches a content address without its scheme.
var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Results is the port of stored results. [agent.CodeNotFound] for a result that is unknown or belongs to another tenant, with the same text.
// A tenant may be [agent.AnyTenant]; a cas:// reference is then one of [agent.DefaultTenant]. A reference is artifact:// or cas://, a result
// id, a turn id or a job id.
type Results interface {
	// Result opens a stored result. The caller closes Body.
	Result(ctx context.Context, tenant, ref string) (ResultView, error)
	// Dataset opens the rows of a result as JSON: an array of rows, or the document that the result is. The caller closes it; reading ends
	// soon after ctx does.
	Dataset(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
	// ResultMetadata returns what is stored of a finished turn besides its output.
	ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error)
}

// ResultView is a stored result, open for reading.
type ResultView struct {
	Ref       string        // the canonical reference, artifact:// or cas://
	TurnID    agent.TurnID  // empty for a blob that belongs to no single turn
	MediaType string        // empty: application/json
	Size      int64         // bytes; -1 when not known
	Body      io.ReadCloser // streamed, so that a result of any size costs no memory
}

func (s *httpServer) routeResults() {
	s.route(pathResults+"{ref...}", methods{http.MethodGet: requires(s.serve(tenantAgreed, s.getResults), agent.ActionResultsRead)})
}

// getResults serves all paths below /v1/results/. The slashes of a reference need no escape, so the mux cannot tell where it ends.
func (s *httpServer) getResults(c *Call) error {
	ref, rows := strings.CutSuffix(c.r.PathValue("ref"), "/data")
	ref, err := resultRef(ref)
	switch {
	case err != nil:
		return err
	case rows:
		return s.getData(c, ref)
	default:
		return s.getResult(c, ref)
	}
}

// getResult is GET /v1/results/{ref}: the stored document itself, streamed. The slashes of a reference may be escaped or not.
func (s *httpServer) getResult(c *Call, ref string) error {
	if err := c.query.end(); err != nil {
		return err
	}
	ctx, cancel := s.whileOpen(c.r.Context())
	defer cancel()
	v, err := s.openResult(ctx, cancel, c.caller, ref)
	if err != nil {
		return err
	}
	defer v.Body.Close() //nolint:errcheck // read-only
	h := c.w.Header()
	h.Set("Content-Type", mediaTypeOf(v.MediaType))
	h.Set("Cache-Control", "no-store")
	h.Set(resultRefHeader, v.Ref)
	if v.TurnID != "" {
		h.Set(turnIDHeader, string(v.TurnID))
	}
	if v.Size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(v.Size, 10))
	}
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	out := &bodyWriter{ctx: ctx, s: s, w: c.w, begun: true}
	if _, err := io.CopyBuffer(out, struct{ io.Reader }{v.Body}, make([]byte, copyBytes)); err != nil {
		return s.breakOff(c.w, out, fmt.Errorf("send result %s: %w", v.Ref, err))
	}
	return nil
}

// bodyWriter writes a body for as long as the client reads and the gateway is open.
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

// breakOff cuts the connection in the middle of a body. A response that ended normally would be taken for complete.
func (s *httpServer) breakOff(w http.ResponseWriter, out *bodyWriter, err error) error {
	if out.err != nil {
		err = out.err // the error of reading only follows from it
	}
	if errors.Is(err, errGone) || errors.Is(err, context.Canceled) { // nobody is left to tell, and nobody is at fault
		err = agent.Errorf(agent.CodeCancelled, "", "%w", err)
	}
	s.fail(w, err)              // for the log
	panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut off a response that has begun
}

// openResult opens a result of the caller's tenant.
func (g *Gateway) openResult(ctx context.Context, cancel context.CancelFunc, caller identity, ref string) (ResultView, error) {
	return openWithin(g.cfg.Limits.CallTimeout, cancel, func() (ResultView, error) { return g.cfg.Results.Result(ctx, caller.lookupTenant(), ref) })
}

// openWithin bounds how long something takes to open. Reading goes on for as long as the client reads and the context lasts, so the bound
// cannot be a deadline of that context: cancel ends it.
func openWithin[T any](timeout time.Duration, cancel context.CancelFunc, open func() (T, error)) (T, error) {
	timer := time.AfterFunc(timeout, cancel)
	v, err := open()
	if !timer.Stop() && err != nil {
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
