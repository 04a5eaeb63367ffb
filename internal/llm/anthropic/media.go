package anthropic

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

const pdf = "application/pdf"

// mediaBlock returns media of a user's message in the form of the API, or the reason for an omission.
func mediaBlock(b *agent.Block) (block content, omission string) {
	switch b.Type {
	case agent.BlockImage:
		return imageBlock(b)
	case agent.BlockFile:
		return documentBlock(b)
	case agent.BlockAudio:
		return block, "the provider takes no audio"
	default:
		return block, wire.CannotCarry
	}
}

func imageBlock(b *agent.Block) (block content, omission string) {
	switch {
	case b.FileID != "":
		return image(source{Type: "file", FileID: b.FileID}), ""
	case b.URL != "":
		return image(source{Type: "url", URL: b.URL}), ""
	case !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, b.MIMEType):
		return block, "the provider takes jpeg, png, gif and webp"
	}
	if _, omission = wire.DecodeBase64(b); omission != "" {
		return block, omission
	}
	return image(source{Type: "base64", MediaType: b.MIMEType, Data: b.Base64}), ""
}

func image(s source) content { return content{Type: "image", Source: &s} }

// documentBlock returns a file in the form of the API. Its extras may have a title, a context, and {"citations":{"enabled":true}}.
func documentBlock(b *agent.Block) (block content, omission string) {
	from, omission := documentSource(b)
	if omission != "" {
		return block, omission
	}
	doc := content{Type: "document", Source: &from, Title: b.Name}
	var extras struct {
		Title     string      `json:"title"`
		Context   string      `json:"context"`
		Citations enabledFlag `json:"citations"`
	}
	if json.Unmarshal(b.Extras, &extras) == nil {
		doc.Title, doc.Context = cmp.Or(extras.Title, b.Name), extras.Context
		if extras.Citations.Enabled {
			doc.Citations = extras.Citations
		}
	}
	return doc, ""
}

func documentSource(b *agent.Block) (from source, omission string) {
	isText := strings.HasPrefix(b.MIMEType, "text/")
	switch {
	case b.FileID != "":
		return source{Type: "file", FileID: b.FileID}, ""
	case b.URL != "" && b.MIMEType != "" && b.MIMEType != pdf:
		return from, "the provider takes PDF alone by URL"
	case b.URL != "":
		return source{Type: "url", URL: b.URL}, ""
	case b.MIMEType != pdf && !isText:
		return from, "the provider takes PDF and text"
	}
	data, omission := wire.DecodeBase64(b)
	switch {
	case omission != "":
		return from, omission
	case !isText:
		return source{Type: "base64", MediaType: pdf, Data: b.Base64}, ""
	case strings.TrimSpace(string(data)) == "":
		return from, "it is empty"
	default:
		return source{Type: "text", MediaType: "text/plain", Data: strings.ToValidUTF8(string(data), "\uFFFD")}, ""
	}
}
