package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Codec is the port that reads and writes payloads of histories that are encrypted or stored elsewhere, for the Web UI and the temporal command
// line. Bodies and answers are temporal.api.common.v1.Payloads in JSON; errors name the payload and hold none of its content.
type Codec interface {
	EncodeJSON(ctx context.Context, body []byte) ([]byte, error)
	DecodeJSON(ctx context.Context, body []byte, keepReferences bool) ([]byte, error)
	DownloadJSON(ctx context.Context, body []byte) ([]byte, error)
	// Stores reports whether payloads may be stored elsewhere; otherwise there is no /codec/download.
	Stores() bool
}

const pathCodec = "/codec/"

// maxCodecCalls bounds the requests that are worked on at once: each may hold as much as a codec fetches.
const maxCodecCalls = 8

// webUIHeaders are the headers that the Web UI sends besides Authorization and Content-Type.
const webUIHeaders = "Authorization-Extras, X-Namespace"

// routeCodec registers the protocol of Temporal's remote codecs. Histories hold the messages of every tenant, so a caller must be allowed
// everything, for every tenant. Only pages of the Web UI's origins may call, whatever else the gateway allows.
func (s *httpServer) routeCodec() {
	places := make(chan struct{}, maxCodecCalls)
	route := func(name string, convert func(c *Call, body []byte) ([]byte, error)) {
		handle := func(c *Call) (any, error) { return s.convertPayloads(c, places, convert) }
		s.route(pathCodec+name, methods{http.MethodPost: requires(s.answer(tenantEither, handle), agent.ActionTurnsRead)})
	}
	route("encode", func(c *Call, body []byte) ([]byte, error) { return s.cfg.Codec.EncodeJSON(c.bounded(), body) })
	route("decode", func(c *Call, body []byte) ([]byte, error) {
		// preserveStorageRefs is how the Web UI asks for references instead of their content.
		return s.cfg.Codec.DecodeJSON(c.bounded(), body, strings.EqualFold(c.r.URL.Query().Get("preserveStorageRefs"), "true"))
	})
	if s.cfg.Codec.Stores() {
		route("download", func(c *Call, body []byte) ([]byte, error) { return s.cfg.Codec.DownloadJSON(c.bounded(), body) })
	}
}

func (s *httpServer) convertPayloads(c *Call, places chan struct{}, convert func(c *Call, body []byte) ([]byte, error)) (any, error) {
	if err := s.checkWebUI(c); err != nil {
		return nil, err
	}
	if err := c.checkOperator(); err != nil {
		return nil, err
	}
	body, err := c.ReadBody()
	if err != nil {
		return nil, err
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-c.bounded().Done():
		return nil, agent.Interrupted(c.bounded(), "wait for other requests")
	}
	converted, err := convert(c, body)
	return json.RawMessage(converted), err
}

// checkWebUI refuses pages that are not the Web UI's. The gateway may have told the browser that any page may see the answer; this answer is
// for one origin.
func (s *httpServer) checkWebUI(c *Call) error {
	h := c.w.Header()
	for _, origin := range c.r.Header.Values("Origin") {
		if !slices.Contains(s.cfg.CodecOrigins, strings.ToLower(origin)) {
			h.Del("Access-Control-Allow-Origin")
			return agent.Errorf(agent.CodeDenied, "", "the origin %.100q is not that of the Web UI (setting: codec origins)", origin)
		}
		h.Set("Access-Control-Allow-Origin", origin)
	}
	return nil
}

// checkOperator refuses a caller who is not allowed everything, for every tenant.
func (c *Call) checkOperator() error {
	p := c.Principal()
	switch {
	case p.Trusted():
		return nil
	case p.Tenant != agent.AnyTenant:
		return agent.Errorf(agent.CodeDenied, "", "payloads are for credentials of every tenant: histories hold what all of them have said")
	case !p.Covers("*"):
		return agent.Errorf(agent.CodeDenied, "", "payloads are for credentials that may do everything: their scope is *")
	}
	return nil
}
