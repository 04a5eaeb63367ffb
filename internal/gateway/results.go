package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// resultRefHeader holds the canonical reference of a result.
const resultRefHeader = "Turnstone-Result-Ref"

// copyBytes is how many bytes of a result are written under one deadline.
const copyBytes = 256 << 10

// Results is the port of stored results. A reference is artifact:// or cas://, a result id, a turn id or a job id. An unknown result and another
// tenant's are [agent.CodeNotFound] with the same text. With [agent.AnyTenant], a cas:// reference is looked up for [agent.DefaultTenant].
type Results interface {
	// Result opens a stored result. The caller closes Body.
	Result(ctx context.Context, tenant, ref string) (ResultView, error)
	// Dataset opens the rows of a result as a JSON array, or the document of a result without rows. The caller closes it. Reading ends soon
	// after ctx ends.
	Dataset(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
	// ResultMetadata returns the data of a finished turn that is not in its output.
	ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error)
}

// ResultView is a stored result, open for reading.
type ResultView struct {
	Ref       string        // the canonical reference, artifact:// or cas://
	TurnID    agent.TurnID  // empty for a blob that several turns share
	MediaType string        // empty: application/json
	Size      int64         // bytes; -1 if unknown
	Body      io.ReadCloser // a stream
}

func (s *httpServer) routeResults() {
	s.route(pathResults+"{ref...}", methods{http.MethodGet: requires(s.serve(tenantUnambiguous, s.getResults), agent.ActionResultsRead)})
}

// getResults serves all paths below /v1/results/. The mux cannot tell them apart, because a reference may hold slashes.
func (s *httpServer) getResults(c *Call) error {
	path, wantsRows := strings.CutSuffix(c.r.PathValue("ref"), "/data")
	ref, err := resultRef(path)
	switch {
	case err != nil:
		return err
	case wantsRows:
		return s.getData(c, ref)
	default:
		return s.getResult(c, ref)
	}
}

// getResult is GET /v1/results/{ref}. It streams the stored document.
func (s *httpServer) getResult(c *Call, ref string) error {
	if err := c.query.validate(); err != nil {
		return err
	}
	ctx, cancel := s.streamContext(c.r.Context())
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
	out := &bodyWriter{ctx: ctx, s: s, w: c.w, isBegun: true}
	if _, err := io.CopyBuffer(out, struct{ io.Reader }{v.Body}, make([]byte, copyBytes)); err != nil {
		return s.abort(c.w, out, fmt.Errorf("send result %s: %w", v.Ref, err))
	}
	return nil
}

// bodyWriter writes a body until ctx ends. It writes the header before the first byte.
type bodyWriter struct {
	ctx       context.Context
	s         *httpServer
	w         http.ResponseWriter
	setHeader func(http.Header)
	isBegun   bool  // the header was written
	err       error // of a failed Write
}

func (o *bodyWriter) begin() {
	if o.isBegun {
		return
	}
	o.isBegun = true
	o.setHeader(o.w.Header())
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
		o.err = fmt.Errorf("%w: %w", errClientGone, err)
	}
	return n, o.err
}

// abort logs an error and cuts the connection in the middle of a body, so that the client does not take the body for complete.
func (s *httpServer) abort(w http.ResponseWriter, out *bodyWriter, err error) error {
	if out.err != nil { // it caused err
		err = out.err
	}
	if errors.Is(err, errClientGone) || errors.Is(err, context.Canceled) { // not an internal error
		err = agent.Errorf(agent.CodeCancelled, "", "%w", err)
	}
	s.fail(w, err)
	panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut off a response that has begun
}

// openResult opens a result of the caller's tenant.
func (g *Gateway) openResult(ctx context.Context, cancel context.CancelFunc, caller identity, ref string) (ResultView, error) {
	return openWithin(g.cfg.Limits.CallTimeout, cancel, func() (ResultView, error) { return g.cfg.Results.Result(ctx, caller.lookupTenant(), ref) })
}

// openWithin calls open and, if that takes longer than timeout, cancel. A deadline of the context will not do, because the context is also that of
// reading, which may take longer.
func openWithin[T any](timeout time.Duration, cancel context.CancelFunc, open func() (T, error)) (T, error) {
	timer := time.AfterFunc(timeout, cancel)
	v, err := open()
	if !timer.Stop() && err != nil {
		return v, context.DeadlineExceeded
	}
	return v, err
}

// resultRef returns the reference in a path. It accepts artifact:/x for artifact://x and cas:/x for cas://x, because the mux removes slashes, and
// sha256:<hex> for cas://sha256:<hex>. Other text is an id.
func resultRef(ref string) (string, error) {
	for _, scheme := range []string{"artifact:", "cas:"} {
		if id, ok := strings.CutPrefix(ref, scheme); ok {
			ref = scheme + "//" + strings.TrimLeft(id, "/")
		}
	}
	if hashPattern.MatchString(ref) {
		ref = "cas://" + ref
	}
	if ref == "" || checkLine("", ref, maxPath) != nil {
		return "", agent.Errorf(agent.CodeNotFound, "", "no result %.140q", ref)
	}
	return ref, nil
}

// mediaTypeOf returns the media type of a stored result, application/octet-stream if it is malformed.
func mediaTypeOf(stored string) string {
	if stored == "" {
		return "application/json"
	}
	if _, _, err := mime.ParseMediaType(stored); err != nil {
		return "application/octet-stream"
	}
	return stored
}
