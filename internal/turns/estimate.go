package turns

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// bytesPerToken is the number of bytes that an estimate counts as one token.
	bytesPerToken = 4
	// mediaTokens is the estimate for one image, recording or file of any size.
	mediaTokens = 85
)

// usage returns the usage of a request. For a complete reply it is what the provider reported. For a request that was cut off it is an estimate: the
// input from the size of the request, unless the provider reported it; the output from the bytes received, if that is more than the provider
// reported. A request that failed before any reply has no usage, unless this process cancelled it: the provider may bill the request.
func (o *observedRequest) usage(ctx context.Context, req *agent.ModelRequest, reply *agent.ModelReply, err error) agent.Usage {
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
