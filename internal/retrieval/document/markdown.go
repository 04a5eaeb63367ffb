package document

import (
	"strings"
	"unicode/utf8"
)

// maxHeading bounds a heading in a path, in runes. A longer heading is part of the text.
const maxHeading = 120

func parseMarkdown(data []byte) (Document, error) {
	text, err := decodeText(data)
	if err != nil {
		return Document{}, err
	}
	return splitMarkdown(text), nil
}

// splitMarkdown returns a text as sections, one for each heading. The title is the first heading of level 1.
func splitMarkdown(text string) Document {
	s := markdownSplitter{}
	lines := strings.SplitAfter(text, "\n")
	if n := frontMatterLines(lines); n > 0 {
		s.body.WriteString(strings.Join(lines[:n], ""))
		s.endSection()
		lines = lines[n:]
	}
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if s.trackFence(line) {
			s.body.WriteString(line)
			continue
		}
		if level, heading := parseATXHeading(line); level > 0 {
			s.startHeading(level, heading, line)
			continue
		}
		if i+1 < len(lines) && (i == 0 || strings.TrimSpace(lines[i-1]) == "") {
			if level := setextLevel(line, lines[i+1]); level > 0 {
				s.startHeading(level, strings.TrimSpace(line), line)
				i++
				continue
			}
		}
		s.body.WriteString(line)
	}
	s.endSection()
	return Document{Title: s.title, Sections: s.sections}
}

type markdownSplitter struct {
	title    string
	path     [6]string // the open heading of each level
	isEmpty  bool      // there is no text after the innermost heading
	body     strings.Builder
	fence    string // opened the current code block; empty: there is none
	sections []Section
}

// startHeading ends the section before a heading.
func (s *markdownSplitter) startHeading(level int, text, line string) {
	isInPath := text != "" && utf8.RuneCountInString(text) <= maxHeading
	if s.isEmpty && s.depth() < level && strings.TrimSpace(s.body.String()) == "" {
		s.body.Reset() // the new heading has the empty one in its path
	} else {
		s.endSection()
	}
	for i := level - 1; i < len(s.path); i++ {
		s.path[i] = ""
	}
	s.isEmpty = isInPath
	if !isInPath {
		s.body.WriteString(line)
		return
	}
	s.path[level-1] = text
	if s.title == "" && level == 1 {
		s.title = text
	}
}

// depth returns the level of the innermost open heading, 0 if there is none.
func (s *markdownSplitter) depth() int {
	for i := len(s.path); i > 0; i-- {
		if s.path[i-1] != "" {
			return i
		}
	}
	return 0
}

// endSection ends the current section. It keeps a section without text if its heading is in no other path.
func (s *markdownSplitter) endSection() {
	var path []string
	for _, h := range s.path {
		if h != "" {
			path = append(path, h)
		}
	}
	body := s.body.String()
	if strings.TrimSpace(body) != "" || s.isEmpty {
		s.sections = appendSection(s.sections, Section{Path: path, Text: body})
	}
	s.body.Reset()
	s.isEmpty = false
}

// trackFence opens and closes code blocks, and reports whether a line belongs to one. The fences belong to it.
func (s *markdownSplitter) trackFence(line string) bool {
	if s.fence == "" {
		s.fence = OpeningFence(line)
		return s.fence != ""
	}
	if ClosesFence(line, s.fence) {
		s.fence = ""
	}
	return true
}

// OpeningFence returns the run of ` or ~ on a line that opens a fenced code block, empty if there is none. The line may be indented by more than the
// three spaces of CommonMark, because blocks may be in lists.
func OpeningFence(line string) string {
	line = strings.TrimSpace(line)
	for _, mark := range []string{"`", "~"} {
		run := line[:len(line)-len(strings.TrimLeft(line, mark))]
		if len(run) >= 3 && (mark == "~" || !strings.Contains(line[len(run):], "`")) {
			return run
		}
	}
	return ""
}

// ClosesFence reports whether a line closes the code block that was opened by fence.
func ClosesFence(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// parseATXHeading parses a heading such as "## Heading ##". The level is 0 if the line is no heading.
func parseATXHeading(line string) (level int, text string) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	line = strings.TrimRight(line[indent:], " \t\n")
	level = len(line) - len(strings.TrimLeft(line, "#"))
	if indent > 3 || level == 0 || level > 6 {
		return 0, ""
	}
	text = line[level:]
	if text != "" && text[0] != ' ' && text[0] != '\t' {
		return 0, ""
	}
	text = strings.TrimSpace(text)
	if closed := strings.TrimRight(text, "#"); closed == "" || strings.HasSuffix(closed, " ") {
		text = strings.TrimSpace(closed)
	}
	return level, text
}

// setextLevel returns the level of a heading that is underlined with = or -, 0 for other text. The heading has to be a paragraph of one line: with more
// lines, the rule below is usually not meant as an underline.
func setextLevel(line, under string) int {
	text, under := strings.TrimSpace(line), strings.TrimRight(under, " \t\n")
	isIndented := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
	if text == "" || isIndented || strings.ContainsAny(text[:1], "-*+>|#`~") || len(under) < 2 {
		return 0
	}
	switch {
	case strings.Trim(under, "=") == "":
		return 1
	case strings.Trim(under, "-") == "":
		return 2
	default:
		return 0
	}
}

// frontMatterLines returns the number of lines in the YAML front matter, which is between two lines ---.
func frontMatterLines(lines []string) int {
	if strings.TrimRight(lines[0], " \n") != "---" {
		return 0
	}
	for i := 1; i < len(lines) && i < 200; i++ {
		if strings.TrimRight(lines[i], " \n") == "---" {
			return i + 1
		}
	}
	return 0
}
