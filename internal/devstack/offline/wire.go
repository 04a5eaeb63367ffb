package offline

import (
	"encoding/json"
	"net/http"
	"regexp"
	"time"
)

var (
	textToken     = regexp.MustCompile(`[^ \n]*[ \n]+|[^ \n]+`) // a word and the space after it
	argumentToken = regexp.MustCompile(`(?s).{1,12}`)
)

// object is a JSON object.
type object = map[string]any

// tokens returns the number of tokens of a reply.
func (r *reply) tokens() int {
	n := len(textToken.FindAllString(r.text, -1))
	for _, c := range r.calls {
		n += len(argumentToken.FindAllString(c.Function.Arguments, -1)) + 1
	}
	return n
}

func (r *reply) usage(req *request) object {
	in, out := req.tokens, r.tokens()
	return object{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
}

// frame returns the JSON object of a completion or of a chunk.
func frame(req *request, kind string, choices ...object) object {
	return object{
		"id": "chatcmpl-" + req.hash(-1), "object": kind, "created": time.Now().Unix(), "model": req.Model,
		"choices": append([]object{}, choices...),
	}
}

// completion returns the JSON object of an answer that is not streamed.
func completion(req *request, r *reply) object {
	message := object{"role": "assistant", "content": r.text, "refusal": nil}
	if len(r.calls) > 0 {
		message["content"], message["tool_calls"] = nil, r.calls
	}
	c := frame(req, "chat.completion", object{"index": 0, "message": message, "logprobs": nil, "finish_reason": r.finish})
	c["usage"] = r.usage(req)
	return c
}

// stream writes the answer as server-sent events, one for each token, until the client leaves.
func stream(w http.ResponseWriter, r *http.Request, req *request, reply *reply) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := http.NewResponseController(w)
	send := func(chunk object) error {
		data, err := json.Marshal(chunk)
		if err == nil {
			_, err = w.Write([]byte("data: " + string(data) + "\n\n"))
		}
		if err == nil {
			err = out.Flush()
		}
		return err
	}
	chunk := func(delta object, finish any) object {
		return frame(req, "chat.completion.chunk", object{"index": 0, "delta": delta, "finish_reason": finish})
	}
	for i, d := range reply.deltas() {
		if i > 0 && sleep(r.Context(), reply.pace) != nil || send(chunk(d, nil)) != nil {
			return
		}
	}
	if send(chunk(object{}, reply.finish)) != nil {
		return
	}
	if req.StreamOptions.IncludeUsage {
		last := frame(req, "chat.completion.chunk")
		last["usage"] = reply.usage(req)
		if send(last) != nil {
			return
		}
	}
	_, _ = w.Write([]byte("data: [DONE]\n\n")) // fails if the client has left
}

// deltas returns the answer as the deltas of a stream. The first delta has the role. The first delta of a call has the name of the tool, and the others
// have its arguments.
func (r *reply) deltas() []object {
	out := []object{{"role": "assistant", "content": ""}}
	for _, token := range textToken.FindAllString(r.text, -1) {
		out = append(out, object{"content": token})
	}
	call := func(o object) object { return object{"tool_calls": []object{o}} }
	for i, c := range r.calls {
		out = append(out, call(object{"index": i, "id": c.ID, "type": c.Type, "function": function{Name: c.Function.Name}}))
		for _, token := range argumentToken.FindAllString(c.Function.Arguments, -1) {
			out = append(out, call(object{"index": i, "function": object{"arguments": token}}))
		}
	}
	return out
}
