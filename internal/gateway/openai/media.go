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

// userContent reads what a user says and shows.
func userContent(o object) ([]agent.Block, error) {
	return content(o, func(part object, kind string) (agent.Block, error) {
		switch kind {
		case "image_url":
			return image(part)
		case "input_audio":
			return audio(part)
		case "file":
			return file(part)
		default:
			return agent.Block{}, agent.Invalid(part.at("type"), "want text, image_url, input_audio or file, got %.60q", kind)
		}
	})
}

// image reads {"image_url":{"url":…}}: a data: URL, or one that the model's provider fetches.
func image(part object) (agent.Block, error) {
	b := agent.Block{Type: agent.BlockImage}
	o, err := part.object("image_url")
	if err != nil {
		return b, err
	}
	address, err := member[string](o, "url")
	if err != nil {
		return b, err
	}
	if strings.HasPrefix(address, "data:") {
		b.MIMEType, b.Base64, err = dataURL(o.at("url"), address)
		return b, err
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return b, agent.Invalid(o.at("url"), "want an https, http or data URL, got %.60q", address)
	}
	b.URL = address
	return b, nil
}

// audio reads {"input_audio":{"data":…,"format":"wav"}}.
func audio(part object) (agent.Block, error) {
	b := agent.Block{Type: agent.BlockAudio}
	o, err := part.object("input_audio")
	if err != nil {
		return b, err
	}
	format, err := member[string](o, "format")
	if err != nil {
		return b, err
	}
	switch format {
	case "wav":
		b.MIMEType = "audio/wav"
	case "mp3":
		b.MIMEType = "audio/mpeg"
	default:
		return b, agent.Invalid(o.at("format"), "want wav or mp3, got %.60q", format)
	}
	if b.Base64, err = member[string](o, "data"); err != nil {
		return b, err
	}
	return b, checkBase64(o.at("data"), b.Base64)
}

// file reads {"file":{"file_data":…,"filename":…}} or {"file":{"file_id":…}}.
func file(part object) (agent.Block, error) {
	b := agent.Block{Type: agent.BlockFile}
	o, err := part.object("file")
	if err != nil {
		return b, err
	}
	if b.FileID, err = member[string](o, "file_id"); err != nil {
		return b, err
	}
	if b.Name, err = member[string](o, "filename"); err != nil {
		return b, err
	}
	data, err := member[string](o, "file_data")
	switch {
	case err != nil:
		return b, err
	case (data == "") == (b.FileID == ""):
		return b, agent.Invalid(o.path, "want exactly one of file_data and file_id")
	case data == "":
		return b, nil
	case strings.HasPrefix(data, "data:"):
		b.MIMEType, b.Base64, err = dataURL(o.at("file_data"), data)
		return b, err
	}
	b.Base64 = data
	b.MIMEType, _, _ = strings.Cut(cmp.Or(mime.TypeByExtension(path.Ext(b.Name)), "application/octet-stream"), ";")
	return b, checkBase64(o.at("file_data"), data)
}

// dataURL reads data:image/png;base64,… .
func dataURL(field, address string) (media, data string, err error) {
	head, data, ok := strings.Cut(strings.TrimPrefix(address, "data:"), ",")
	media, isBase64 := strings.CutSuffix(head, ";base64")
	if !ok || !isBase64 {
		return "", "", agent.Invalid(field, "want data:<media type>;base64,<data>")
	}
	media, _, err = mime.ParseMediaType(media)
	if err != nil {
		return "", "", agent.Invalid(field, "want a media type, as in data:image/png;base64,…")
	}
	return media, data, checkBase64(field, data)
}

func checkBase64(field, data string) error {
	if data == "" {
		return agent.Invalid(field, "is empty")
	}
	if _, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(data))); err != nil {
		return agent.Invalid(field, "is not base64: %w", err)
	}
	return nil
}
