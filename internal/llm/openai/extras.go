package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// streamedAudioType is the MIME type of streamed audio, which has 16 bits, 24 kHz and one channel.
const streamedAudioType = "audio/pcm"

// addExtras adds citations, images and audio. It ignores those in an unexpected form.
func (r *reply) addExtras(d *delta) error {
	if len(d.Annotations) > 0 {
		if err := r.addCitations(d.Annotations); err != nil {
			return err
		}
	}
	if len(d.Images) > 0 {
		if err := r.addImages(d.Images); err != nil {
			return err
		}
	}
	if d.Audio == nil {
		return nil
	}
	piece, err := base64.StdEncoding.DecodeString(d.Audio.Data)
	if err != nil || len(piece) == 0 {
		return nil //nolint:nilerr // ignored
	}
	return r.AddAudio(piece, streamedAudioType)
}

func (r *reply) addCitations(raw json.RawMessage) error {
	var annotations []struct {
		Type        string `json:"type"`
		URLCitation struct {
			URL        string `json:"url"`
			Title      string `json:"title"`
			StartIndex *int   `json:"start_index"`
			EndIndex   *int   `json:"end_index"`
		} `json:"url_citation"`
	}
	if json.Unmarshal(raw, &annotations) != nil {
		return nil //nolint:nilerr // ignored
	}
	var citations []agent.Annotation
	for i := range annotations {
		c := &annotations[i].URLCitation
		if annotations[i].Type == "url_citation" {
			citations = append(citations, agent.Annotation{Type: "citation", URL: c.URL, Title: c.Title, StartIndex: c.StartIndex, EndIndex: c.EndIndex})
		}
	}
	if len(citations) == 0 {
		return nil
	}
	return r.AddCitations(citations, len(raw))
}

func (r *reply) addImages(raw json.RawMessage) error {
	var images []struct {
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(raw, &images) != nil {
		return nil //nolint:nilerr // ignored
	}
	for i := range images {
		image := agent.Block{Type: agent.BlockImage, URL: images[i].ImageURL.URL}
		if data, ok := strings.CutPrefix(image.URL, "data:"); ok {
			image.URL = ""
			image.MIMEType, image.Base64, _ = strings.Cut(data, ";base64,")
		}
		if image.Validate("image") != nil {
			continue
		}
		if err := r.AddMedia(image, len(images[i].ImageURL.URL)); err != nil {
			return err
		}
	}
	return nil
}
