package openai

import (
	"cmp"
	"encoding/base64"
	"io"
	"mime"
	"net/url"
	"path"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// userContent reads the content of a user's message: text, images, sound and files.
func userContent(o object) []agent.Block {
	return content(o, func(part object, kind string) agent.Block {
		switch kind {
		case "image_url":
			return image(part)
		case "input_audio":
			return audio(part)
		case "file":
			return file(part)
		default:
			part.refuse("type", "want text, image_url, input_audio or file, got %.60q", kind)
			return agent.Block{}
		}
	})
}

// image reads {"image_url":{"url":…}}: a data: URL, or one that the model's provider fetches.
func image(part object) agent.Block {
	o := part.object("image_url")
	b := agent.Block{Type: agent.BlockImage}
	address := member[string](o, "url")
	if strings.HasPrefix(address, "data:") {
		b.MIMEType, b.Base64 = dataURL(o, "url", address)
		return b
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		o.refuse("url", "want an https, http or data URL, got %.60q", address)
	}
	b.URL = address
	return b
}

// audio reads {"input_audio":{"data":…,"format":"wav"}}.
func audio(part object) agent.Block {
	o := part.object("input_audio")
	b := agent.Block{Type: agent.BlockAudio}
	switch format := member[string](o, "format"); format {
	case "wav":
		b.MIMEType = "audio/wav"
	case "mp3":
		b.MIMEType = "audio/mpeg"
	default:
		o.refuse("format", "want wav or mp3, got %.60q", format)
	}
	b.Base64 = member[string](o, "data")
	checkBase64(o, "data", b.Base64)
	return b
}

// file reads {"file":{"file_data":…,"filename":…}} or {"file":{"file_id":…}}.
func file(part object) agent.Block {
	o := part.object("file")
	b := agent.Block{Type: agent.BlockFile, FileID: member[string](o, "file_id"), Name: member[string](o, "filename")}
	data := member[string](o, "file_data")
	switch {
	case (data == "") == (b.FileID == ""):
		o.fail(agent.Invalid(o.path, "want exactly one of file_data and file_id"))
	case data == "":
	case strings.HasPrefix(data, "data:"):
		b.MIMEType, b.Base64 = dataURL(o, "file_data", data)
	default:
		b.Base64 = data
		b.MIMEType, _, _ = strings.Cut(cmp.Or(mime.TypeByExtension(path.Ext(b.Name)), "application/octet-stream"), ";")
		checkBase64(o, "file_data", data)
	}
	return b
}

// dataURL reads a member such as data:image/png;base64,… .
func dataURL(o object, name, address string) (media, data string) {
	prefix, data, ok := strings.Cut(strings.TrimPrefix(address, "data:"), ",")
	media, isBase64 := strings.CutSuffix(prefix, ";base64")
	if !ok || !isBase64 {
		o.refuse(name, "want data:<media type>;base64,<data>")
	}
	media, _, err := mime.ParseMediaType(media)
	if err != nil {
		o.refuse(name, "want a media type, as in data:image/png;base64,…")
	}
	checkBase64(o, name, data)
	return media, data
}

// checkBase64 refuses a member that is empty or not base64.
func checkBase64(o object, name, data string) {
	if data == "" {
		o.refuse(name, "is empty")
	}
	if _, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(data))); err != nil {
		o.refuse(name, "is not base64: %w", err)
	}
}
