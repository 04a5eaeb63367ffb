// Package codec is the door for whoever looks at histories whose payloads are encrypted or stored elsewhere: the Web UI and the temporal
// command line. It speaks the protocol of Temporal's remote codecs under /codec.
//
// Histories hold what everybody has said, of every tenant, so that a caller must be an operator: whoever may do everything, everywhere. Pages
// may call from the origins of the Web UI and no others, whatever else the gateway allows.
package codec

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Codec reads and writes payloads. Bodies and answers are temporal.api.common.v1.Payloads in JSON; errors name the payload and hold nothing of
// its content.
type Codec interface {
	EncodeJSON(ctx context.Context, body []byte) ([]byte, error)
	DecodeJSON(ctx context.Context, body []byte, keepReferences bool) ([]byte, error)
	DownloadJSON(ctx context.Context, body []byte) ([]byte, error)
	// Stores reports whether payloads may be stored elsewhere; else there is no /codec/download.
	Stores() bool
}

// The paths.
const (
	pathEncode   = "/codec/encode"
	pathDecode   = "/codec/decode"
	pathDownload = "/codec/download"
)

// atOnce bounds how many requests are worked on at once: each may hold as much as a codec fetches.
const atOnce = 8

// keepQuery is how the Web UI asks for references instead of what they lead to.
const keepQuery = "preserveStorageRefs"

// pageHeaders are what the Web UI sends besides Authorization and Content-Type.
const pageHeaders = "Authorization-Extras, X-Namespace"

// Door serves a codec. It implements [gateway.Door].
type Door struct {
	codec   Codec
	origins []string
	places  chan struct{}
}

// New returns the door. Origins are those of the Web UI, scheme://host[:port] as a browser sends them.
func New(c Codec, origins []string) (*Door, error) {
	if c == nil {
		return nil, errors.New("codec door: the codec is missing")
	}
	d := &Door{codec: c, places: make(chan struct{}, atOnce)}
	for _, origin := range origins {
		if origin == "" || origin == "null" || strings.Contains(origin, "*") {
			return nil, agent.Invalid("origins", "%q is the origin of no Web UI", origin)
		}
		d.origins = append(d.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	return d, nil
}

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	routes := []gateway.Route{
		d.route(pathEncode, func(r *http.Request, body []byte) ([]byte, error) { return d.codec.EncodeJSON(r.Context(), body) }),
		d.route(pathDecode, func(r *http.Request, body []byte) ([]byte, error) {
			return d.codec.DecodeJSON(r.Context(), body, strings.EqualFold(r.URL.Query().Get(keepQuery), "true"))
		}),
	}
	if d.codec.Stores() {
		routes = append(routes, d.route(pathDownload, func(r *http.Request, body []byte) ([]byte, error) {
			return d.codec.DownloadJSON(r.Context(), body)
		}))
	}
	return routes
}

func (d *Door) route(path string, do func(r *http.Request, body []byte) ([]byte, error)) gateway.Route {
	handle := func(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error { return d.handle(w, r, v, do) }
	return gateway.Route{
		Method: http.MethodPost, Path: path, Action: agent.ActionTurnsRead, Handle: handle, Pages: d.origins, PageHeaders: pageHeaders,
	}
}

func (d *Door) handle(w http.ResponseWriter, r *http.Request, v *gateway.Visit, do func(r *http.Request, body []byte) ([]byte, error)) error {
	if err := d.welcome(w, r); err != nil {
		return err
	}
	if err := operator(v); err != nil {
		return err
	}
	body, err := v.ReadBody(w, r)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), v.Limits().CallTimeout)
	defer stop()
	select {
	case d.places <- struct{}{}:
		defer func() { <-d.places }()
	case <-ctx.Done():
		return agent.Interrupted(ctx, "wait for other requests")
	}
	answer, err := do(r.WithContext(ctx), body)
	if err != nil {
		return err
	}
	v.WriteJSON(w, http.StatusOK, json.RawMessage(answer))
	return nil
}

// welcome refuses pages that are not the Web UI's. The gateway has let in those that it allows and told the browser so, perhaps that any may
// see the answer; this answer is for one.
func (d *Door) welcome(w http.ResponseWriter, r *http.Request) error {
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(d.origins, strings.ToLower(origin)) {
			w.Header().Del("Access-Control-Allow-Origin")
			return agent.Errorf(agent.CodeDenied, "", "the origin %.100q is not that of the Web UI (setting: codec origins)", origin)
		}
		w.Header().Set("Access-Control-Allow-Origin", origin)
	}
	return nil
}

// operator refuses whoever may not do everything, for every tenant.
func operator(v *gateway.Visit) error {
	p := v.Principal()
	if p.Trusted() {
		return nil
	}
	if p.Tenant != agent.AnyTenant {
		return agent.Errorf(agent.CodeDenied, "", "payloads are for credentials of every tenant: histories hold what all of them have said")
	}
	if !p.Covers("*") {
		return agent.Errorf(agent.CodeDenied, "", "payloads are for credentials that may do everything: their scope is *")
	}
	return nil
}
