package openai

import (
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Media is the media that a server takes in a user's message. Other media become notes.
type Media struct {
	ImageURL   bool     // images by URL, which the server fetches
	ImageTypes []string // MIME types of images in base64; nil: any
	Audio      bool     // wav and mp3 in base64
	File       bool     // by id, or in base64
	FileTypes  []string // prefixes of the MIME types of files in base64; nil: any
}

// defaultMedia returns what OpenAI takes. Another server may take more types, so it gets all.
func defaultMedia(isOfficial bool) Media {
	media := Media{ImageURL: true, Audio: true, File: true}
	if isOfficial {
		media.ImageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
		media.FileTypes = []string{
			"application/pdf", "text/", "application/json", "application/xml", "application/rtf", "application/msword", "application/vnd.ms-",
			"application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.",
		}
	}
	return media
}

// userParts returns the parts of a user's message. A block that the server does not take becomes a note.
func (m *model) userParts(blocks []agent.Block) []part {
	var parts []part
	for i := range blocks {
		b := &blocks[i]
		var p part
		var omission string // reason
		switch {
		case b.Type == agent.BlockText:
			p = textPart(b.Text)
		case b.Type == agent.BlockImage:
			p, omission = m.media.image(b)
		case b.Type == agent.BlockAudio:
			p, omission = m.media.audio(b)
		case b.Type == agent.BlockFile:
			p, omission = m.media.file(b)
		case wire.IsReasoning(b):
			continue
		default:
			omission = wire.CannotCarry
		}
		if omission != "" {
			p = textPart(wire.OmissionNote(b, omission))
		}
		parts = append(parts, p)
	}
	return parts
}

func (m Media) image(b *agent.Block) (p part, omission string) {
	source := b.URL
	switch {
	case b.FileID != "":
		return p, "the provider takes no image by id"
	case b.URL != "" && !m.ImageURL:
		return p, "the provider takes no image by URL"
	case b.URL != "":
	case m.ImageTypes != nil && !slices.Contains(m.ImageTypes, b.MIMEType):
		return p, "the provider takes " + strings.Join(m.ImageTypes, ", ")
	case !isBase64(b):
		return p, wire.NotBase64
	default:
		source = dataURL(b)
	}
	return part{Type: "image_url", ImageURL: &imageURL{source}}, ""
}

func (m Media) audio(b *agent.Block) (p part, omission string) {
	format := audioFormat(b.MIMEType)
	switch {
	case !m.Audio:
		return p, "the provider takes no audio"
	case b.Base64 == "":
		return p, "the provider takes audio in base64 alone"
	case format == "":
		return p, "the provider takes wav and mp3"
	case !isBase64(b):
		return p, wire.NotBase64
	}
	return part{Type: "input_audio", InputAudio: &inputAudio{b.Base64, format}}, ""
}

func audioFormat(mimeType string) string {
	switch mimeType {
	case "audio/wav", "audio/x-wav", "audio/wave":
		return "wav"
	case "audio/mpeg", "audio/mp3":
		return "mp3"
	default:
		return ""
	}
}

func (m Media) file(b *agent.Block) (p part, omission string) {
	var file inputFile
	switch {
	case !m.File:
		return p, "the provider takes no files"
	case b.FileID != "":
		file.FileID = b.FileID
	case b.URL != "":
		return p, "the provider takes no file by URL"
	case m.FileTypes != nil && !slices.ContainsFunc(m.FileTypes, func(kind string) bool { return strings.HasPrefix(b.MIMEType, kind) }):
		return p, "the provider takes PDF, text and office documents"
	case !isBase64(b):
		return p, wire.NotBase64
	default:
		file.FileData, file.Filename = dataURL(b), fileName(b)
	}
	return part{Type: "file", File: &file}, ""
}

func dataURL(b *agent.Block) string { return "data:" + b.MIMEType + ";base64," + b.Base64 }

// isBase64 reports whether a block has valid content in base64.
func isBase64(b *agent.Block) bool {
	_, omission := wire.DecodeBase64(b)
	return b.Base64 != "" && omission == ""
}

// fileName returns the name that the API requires for a file in base64.
func fileName(b *agent.Block) string {
	if b.Name != "" {
		return b.Name
	}
	_, kind, _ := strings.Cut(b.MIMEType, "/")
	if kind == "" {
		return "file"
	}
	return "file." + kind
}
