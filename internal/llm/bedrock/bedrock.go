// Package bedrock is an [agent.Model] for Amazon Bedrock. It uses the operation ConverseStream, which has one protocol for all models. Of Amazon's SDK
// it uses the event stream decoder and the request signer. docs/adr/0002 says why.
package bedrock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Config is the configuration of the client. BaseURL is that of a region, and APIKey is a Bedrock API key.
type Config = wire.Config

// maxEvent bounds one event of the stream.
const maxEvent = 16 << 20

type model struct {
	client      *wire.Client
	region      string                  // for the signature
	credentials aws.CredentialsProvider // of the machine; nil: the key is used
}

// New returns a model. Without a key it uses the AWS credentials of the machine, if cfg.Ambient allows it. An error is [agent.CodeInvalid] with the
// field.
func New(cfg Config) (agent.Model, error) {
	if cfg.BaseURL == "" {
		return nil, agent.Invalid("base_url", "is empty: want https://bedrock-runtime.REGION.amazonaws.com")
	}
	client, err := wire.NewClient("bedrock", "", cfg)
	if err != nil {
		return nil, err
	}
	m := &model{client: client}
	if cfg.APIKey != "" {
		return m, nil
	}
	if !cfg.Ambient {
		return nil, agent.Invalid("api_key", "is empty")
	}
	u, _ := url.Parse(cfg.BaseURL) // NewClient has checked it
	host := strings.Split(u.Hostname(), ".")
	if len(host) < 3 || !strings.HasPrefix(host[0], "bedrock-runtime") {
		return nil, agent.Invalid("base_url", "names no region: want https://bedrock-runtime.REGION.amazonaws.com where the machine's credentials count")
	}
	m.region = host[1]
	machine, err := config.LoadDefaultConfig(context.Background(), config.WithRegion(m.region))
	if err != nil {
		return nil, agent.Invalid("api_key", "is empty, and the AWS configuration of the machine cannot be read: %w", err)
	}
	m.credentials = machine.Credentials
	return m, nil
}

// Generate implements [agent.Model]. If it fails after the stream has begun, the reply has the text and usage that had arrived.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	request, err := newRequest(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	call := m.client.Begin(ctx, emit)
	defer call.End()
	res, err := m.send(call.Context(), req.Model, body)
	if err != nil {
		return agent.ModelReply{}, call.Failure(err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing more is read
	r := reply{call: call, model: req.Model}
	if err := call.Failure(r.read(res.Body)); err != nil {
		return r.partial(), err
	}
	if r.finish == "" || !r.hasUsage {
		return r.partial(), call.Incomplete()
	}
	return r.complete(), nil
}

// read adds all events of a stream.
func (r *reply) read(body io.Reader) error {
	decoder := eventstream.NewDecoder()
	for {
		event, err := decoder.Decode(io.LimitReader(body, maxEvent), nil)
		switch {
		case errors.Is(err, io.EOF):
			return nil // the last events say whether the reply is complete
		case err != nil:
			return r.call.Malformed(err)
		}
		name := header(event, ":event-type") + header(event, ":exception-type") // an event has one of them
		if err := r.add(header(event, ":message-type"), name, event.Payload); err != nil {
			return err
		}
	}
}

// header returns a header of an event, empty if it has none.
func header(m eventstream.Message, name string) string {
	if v := m.Headers.Get(name); v != nil {
		return v.String()
	}
	return ""
}

func (m *model) send(ctx context.Context, modelName string, body []byte) (*http.Response, error) {
	cfg := m.client.Config()
	escaped := strings.ReplaceAll(url.PathEscape(modelName), ":", "%3A") // as in Amazon's SDK
	address := strings.TrimSuffix(cfg.BaseURL, "/") + "/model/" + escaped + "/converse-stream"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, agent.Invalid("base_url", "is no URL")
	}
	req.Header.Set("Content-Type", "application/json")
	if m.credentials == nil {
		req.Header.Set("Authorization", "Bearer "+cfg.APIKey)
		return m.client.HTTP().Do(req)
	}
	credentials, err := m.credentials.Retrieve(ctx)
	if err != nil {
		return nil, agent.Errorf(agent.CodeDenied, "", "read the AWS credentials of the machine: %w", err)
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), "bedrock", m.region, time.Now()); err != nil {
		return nil, agent.Errorf(agent.CodeDenied, "", "sign the request: %w", err)
	}
	return m.client.HTTP().Do(req)
}
