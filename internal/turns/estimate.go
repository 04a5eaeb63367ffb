package turns

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// bytesPerToken is how many bytes of text count as one token where no provider has counted.
	bytesPerToken = 4
	// mediaTokens is what an image, a recording or a file counts as, whatever its size.
	mediaTokens = 85
)

// usage returns what a request used: what the provider said or, of one that was cut off, an estimate. Its input is what the provider said, else the
// request's bytes; its output the larger of what the provider said and the bytes received. A request that failed before anything came has used
// nothing, unless it was this side that gave it up: what was sent may be billed.
func (o *asked) usage(ctx context.Context, req *agent.ModelRequest, reply *agent.ModelReply, err error) agent.Usage {
	used := reply.Usage
	received := max(o.bytes, reply.Received)
	if err == nil || received == 0 && used == (agent.Usage{}) && (ctx.Err() == nil || !o.sent) {
		return used
	}
	if used.InputTokens == 0 {
		used.InputTokens = requestTokens(req)
	}
	used.OutputTokens = max(used.OutputTokens, tokensOf(received))
	used.Estimated = true
	return used
}

func tokensOf(bytes int64) int64 { return (bytes + bytesPerToken - 1) / bytesPerToken }

// requestTokens estimates the input tokens of a request.
func requestTokens(req *agent.ModelRequest) int64 {
	bytes, media := len(req.System)+len(req.About)+len(req.OutputSchema), 0
	for i := range req.Tools {
		t := &req.Tools[i]
		bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	for i := range req.Messages {
		for j := range req.Messages[i].Blocks {
			switch b := &req.Messages[i].Blocks[j]; b.Type {
			case agent.BlockImage, agent.BlockAudio, agent.BlockFile:
				media++
			default:
				bytes += len(b.Text) + len(b.Reasoning) + len(b.Name) + len(b.Args) + len(b.Output) + len(b.Value)
			}
		}
	}
	return tokensOf(int64(bytes)) + int64(media*mediaTokens)
}
