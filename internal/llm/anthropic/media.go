package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

const pdf = "application/pdf"

// mediaBlock projects media of a user's message; lacks says why the API cannot take it.
func mediaBlock(b *agent.Block) (block content, lacks string) {
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

func imageBlock(b *agent.Block) (block content, lacks string) {
	switch {
	case b.FileID != "":
		return sdk.NewImageBlock(sdk.FileImageSourceParam{FileID: b.FileID}), ""
	case b.URL != "":
		return sdk.NewImageBlock(sdk.URLImageSourceParam{URL: b.URL}), ""
	case !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, b.MIMEType):
		return block, "the provider takes jpeg, png, gif and webp"
	}
	if _, lacks = wire.DecodeBase64(b); lacks != "" {
		return block, lacks
	}
	return sdk.NewImageBlockBase64(b.MIMEType, b.Base64), ""
}

// documentBlock projects a file. Its extras may hold what the API takes besides: title, context, and {"citations":{"enabled":true}}.
func documentBlock(b *agent.Block) (block content, lacks string) {
	doc, lacks := documentSource(b)
	if lacks != "" {
		return block, lacks
	}
	if b.Name != "" {
		doc.Title = sdk.String(b.Name)
	}
	var extras struct {
		Title     string `json:"title"`
		Context   string `json:"context"`
		Citations struct {
			Enabled bool `json:"enabled"`
		} `json:"citations"`
	}
	if json.Unmarshal(b.Extras, &extras) == nil {
		if extras.Title != "" {
			doc.Title = sdk.String(extras.Title)
		}
		if extras.Context != "" {
			doc.Context = sdk.String(extras.Context)
		}
		if extras.Citations.Enabled {
			doc.Citations.Enabled = sdk.Bool(true)
		}
	}
	return content{OfDocument: &doc}, ""
}

func documentSource(b *agent.Block) (doc sdk.DocumentBlockParam, lacks string) {
	const takes = "the provider takes PDF and text"
	isText := strings.HasPrefix(b.MIMEType, "text/")
	switch {
	case b.FileID != "":
		doc.Source.OfFile = &sdk.FileDocumentSourceParam{FileID: b.FileID}
	case b.URL != "" && b.MIMEType != "" && b.MIMEType != pdf:
		return doc, "the provider takes PDF alone by URL"
	case b.URL != "":
		doc.Source.OfURL = &sdk.URLPDFSourceParam{URL: b.URL}
	case b.MIMEType != pdf && !isText:
		return doc, takes
	default:
		data, lacks := wire.DecodeBase64(b)
		switch {
		case lacks != "":
			return doc, lacks
		case !isText:
			doc.Source.OfBase64 = &sdk.Base64PDFSourceParam{Data: b.Base64}
		case strings.TrimSpace(string(data)) == "":
			return doc, "it is empty"
		default:
			doc.Source.OfText = &sdk.PlainTextSourceParam{Data: strings.ToValidUTF8(string(data), "\uFFFD")}
		}
	}
	return doc, ""
}
