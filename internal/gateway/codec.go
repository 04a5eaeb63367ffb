package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Codec is the port that encodes and decodes payloads of histories for the Web UI and the temporal command line. Payloads may be encrypted or
// stored outside the history. Bodies and results are temporal.api.common.v1.Payloads in JSON. Errors name the payload, not its content.
type Codec interface {
	EncodeJSON(ctx context.Context, body []byte) ([]byte, error)
	DecodeJSON(ctx context.Context, body []byte, keepReferences bool) ([]byte, error)
	DownloadJSON(ctx context.Context, body []byte) ([]byte, error)
	// Stores reports whether payloads may be stored outside the history. Otherwise there is no /codec/download.
	Stores() bool
}

const pathCodec = "/codec/"

// maxCodecCalls is the maximum number of concurrent codec calls. Each holds its payloads in memory.
const maxCodecCalls = 8

// webUIHeaders are the headers that the Web UI sends in addition to Authorization and Content-Type.
const webUIHeaders = "Authorization-Extras, X-Namespace"

// routeCodec registers the paths of Temporal's remote codec protocol. They are for operators only, because histories hold the messages of every
// tenant. Of all pages, only those of the Web UI's origins may call them.
func (s *httpServer) routeCodec() {
	slots := make(chan struct{}, maxCodecCalls)
	route := func(name string, convert func(c *Call, body []byte) ([]byte, error)) {
		handle := func(c *Call) (any, error) { return s.convertPayloads(c, slots, convert) }
		s.route(pathCodec+name, methods{http.MethodPost: requires(s.answer(tenantHeaderFirst, handle), agent.ActionTurnsRead)})
	}
	route("encode", func(c *Call, body []byte) ([]byte, error) { return s.cfg.Codec.EncodeJSON(c.callContext(), body) })
	route("decode", func(c *Call, body []byte) ([]byte, error) {
		// With preserveStorageRefs the Web UI asks for references instead of their content.
		return s.cfg.Codec.DecodeJSON(c.callContext(), body, strings.EqualFold(c.r.URL.Query().Get("preserveStorageRefs"), "true"))
	})
	if s.cfg.Codec.Stores() {
		route("download", func(c *Call, body []byte) ([]byte, error) { return s.cfg.Codec.DownloadJSON(c.callContext(), body) })
	}
}

func (s *httpServer) convertPayloads(c *Call, slots chan struct{}, convert func(c *Call, body []byte) ([]byte, error)) (any, error) {
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
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-c.callContext().Done():
		return nil, agent.Interrupted(c.callContext(), "wait for other requests")
	}
	converted, err := convert(c, body)
	return json.RawMessage(converted), err
}

// checkWebUI returns an error if the request is from a page that is not the Web UI's. It sets Access-Control-Allow-Origin to the one origin that
// may see the response.
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

// checkOperator returns an error unless the caller may do everything, for every tenant.
func (c *Call) checkOperator() error {
	p := c.Principal()
	switch {
	case p.Trusted():
		return nil
	case p.Tenant != agent.AnyTenant:
		return agent.Errorf(agent.CodeDenied, "", "payloads are for credentials of every tenant, because histories hold the messages of all of them")
	case !p.Covers("*"):
		return agent.Errorf(agent.CodeDenied, "", "payloads are for credentials that may do everything: their scope is *")
	}
	return nil
}
