package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// Post sends body as JSON to an address, with header and a Content-Type. With the client of [Client.HTTP], any response but a success is an error.
func Post(ctx context.Context, web *http.Client, address string, header http.Header, body any) (*http.Response, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, &b)
	if err != nil {
		return nil, agent.Invalid("base_url", "is no URL")
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	return web.Do(req)
}

// Decode decodes the JSON of an event into v. It ignores members of an unexpected type, like unknown ones: only encoding/json can do this, and because
// it takes twice as long, it reads only the events that have such members.
func Decode[T any](data []byte, v *T) error {
	if jsonv2.Unmarshal(data, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil {
		return nil
	}
	var empty T
	*v = empty
	err := json.Unmarshal(data, v)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil
	}
	return err
}
