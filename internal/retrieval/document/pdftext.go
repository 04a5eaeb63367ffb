package document

import (
	"math"
	"strings"

	"github.com/ledongthuc/pdf"
)

const (
	maxPDFForms  = 5   // nested in each other
	maxPDFStates = 256 // saved graphics states
)

// matrix is a PDF matrix [a b c d e f].
type matrix [6]float64

func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func identity() matrix { return matrix{1, 0, 0, 1, 0, 0} }

// textState is the part of the graphics state for the position of text (ISO 32000-1, 9.3).
type textState struct {
	page, text, line matrix
	font             *pdfFont
	size, leading    float64
	charGap, wordGap float64
	stretch          float64
}

// pdfWriter writes the text of a page in the order of its content stream. A page has positions of glyphs, and no words or lines. So a step down becomes
// a line break, a large step down becomes a blank line, and a gap to the right becomes a space.
type pdfWriter struct {
	file       *pdfFile
	out        strings.Builder
	isFull     bool // the text of the file is longer than allowed
	state      textState
	saved      []textState // by the operator q
	hasText    bool
	penX, penY float64 // where the last glyph ended
}

func newPDFWriter(f *pdfFile) *pdfWriter {
	return &pdfWriter{file: f, state: textState{page: identity(), text: identity(), line: identity(), stretch: 1}}
}

// showContents interprets a content stream, or an array of them.
func (w *pdfWriter) showContents(v, resources pdf.Value, depth int) error {
	switch v.Kind() { //nolint:exhaustive // other values have no text
	case pdf.Array:
		for i := range v.Len() {
			if err := w.showStream(v.Index(i), resources, depth); err != nil {
				return err
			}
		}
	case pdf.Stream:
		return w.showStream(v, resources, depth)
	}
	return nil
}

// showStream interprets one content stream.
func (w *pdfWriter) showStream(v, resources pdf.Value, depth int) error {
	if v.Kind() != pdf.Stream {
		return nil
	}
	data, err := w.file.unpackStream(v)
	if err != nil {
		return err
	}
	interpret(data, func(op string, args []operand) bool {
		switch {
		case op == "Do" && len(args) > 0:
			err = w.showForm(resources.Key("XObject").Key(args[0].text), resources, depth+1)
		case op == "Tf" && len(args) > 1:
			w.state.size = args[1].number
			w.state.font, err = w.file.font(resources.Key("Font").Key(args[0].text))
		default:
			w.execute(op, args)
		}
		return err == nil && !w.isFull && w.file.ctx.Err() == nil
	})
	return err
}

// showForm interprets a form, which is a content stream that several pages may use.
func (w *pdfWriter) showForm(v, resources pdf.Value, depth int) error {
	if depth > maxPDFForms || v.Key("Subtype").Name() != "Form" {
		return nil
	}
	if local := v.Key("Resources"); !local.IsNull() {
		resources = local
	}
	state := w.state
	if m := v.Key("Matrix"); m.Len() == 6 {
		var matrix matrix
		for i := range matrix {
			matrix[i] = m.Index(i).Float64()
		}
		w.state.page = matrix.times(w.state.page)
	}
	err := w.showStream(v, resources, depth)
	w.state = state
	return err
}

func matrixOf(args []operand) (m matrix) {
	for i := range m {
		m[i] = args[i].number
	}
	return m
}

// execute executes an operator. It ignores an operator with too few operands, as viewers do.
func (w *pdfWriter) execute(op string, args []operand) {
	count := map[string]int{"cm": 6, "Tm": 6, "Td": 2, "TD": 2, "TL": 1, "Tc": 1, "Tw": 1, "Tz": 1, "Tj": 1, "TJ": 1, "'": 1, `"`: 3}[op]
	if len(args) < count {
		return
	}
	args = args[len(args)-count:]
	s := &w.state
	switch op {
	case "q":
		if len(w.saved) < maxPDFStates {
			w.saved = append(w.saved, *s)
		}
	case "Q":
		if n := len(w.saved); n > 0 {
			*s, w.saved = w.saved[n-1], w.saved[:n-1]
		}
	case "cm":
		s.page = matrixOf(args).times(s.page)
	case "BT":
		s.text, s.line = identity(), identity()
	case "Tm":
		s.line = matrixOf(args)
		s.text = s.line
	case "TD":
		s.leading = -args[1].number
		w.moveLine(args[0].number, args[1].number)
	case "Td":
		w.moveLine(args[0].number, args[1].number)
	case "T*":
		w.moveLine(0, -s.leading)
	case "TL":
		s.leading = args[0].number
	case "Tc":
		s.charGap = args[0].number
	case "Tw":
		s.wordGap = args[0].number
	case "Tz":
		s.stretch = args[0].number / 100
	case "Tj":
		w.showText(args[0].text)
	case "'":
		w.moveLine(0, -s.leading)
		w.showText(args[0].text)
	case `"`:
		s.wordGap, s.charGap = args[0].number, args[1].number
		w.moveLine(0, -s.leading)
		w.showText(args[2].text)
	case "TJ":
		for _, part := range args[0].items {
			if part.kind == operandString {
				w.showText(part.text)
			} else {
				w.advance(-part.number / 1000 * s.size * s.stretch)
			}
		}
	}
}

// moveLine moves to the start of another line.
func (w *pdfWriter) moveLine(x, y float64) {
	w.state.line = matrix{1, 0, 0, 1, x, y}.times(w.state.line)
	w.state.text = w.state.line
}

// advance moves to the right.
func (w *pdfWriter) advance(x float64) {
	w.state.text = matrix{1, 0, 0, 1, x, 0}.times(w.state.text)
}

// showText writes a string and moves to its end.
func (w *pdfWriter) showText(raw string) {
	s := &w.state
	text, width, glyphs, blanks := s.font.decode(raw)
	if text == "" {
		return
	}
	position := s.text.times(s.page)
	x, y := position[4], position[5]
	size := math.Max(math.Abs(s.size)*math.Hypot(position[2], position[3]), 1e-3)
	if w.hasText && !strings.HasPrefix(text, " ") {
		switch down := math.Abs(y - w.penY); {
		case down > 1.9*size:
			w.out.WriteString("\n\n")
		case down > 0.5*size:
			w.out.WriteByte('\n')
		case x-w.penX > 0.15*size, w.penX-x > 2*size:
			w.addSpace()
		}
	}
	if w.out.Len()+len(text) > w.file.textBudget {
		w.isFull = true
		return
	}
	w.out.WriteString(text)
	w.hasText = true
	w.advance((width/1000*s.size + float64(glyphs)*s.charGap + float64(blanks)*s.wordGap) * s.stretch)
	position = s.text.times(s.page)
	w.penX, w.penY = position[4], position[5]
}

func (w *pdfWriter) addSpace() {
	if !strings.HasSuffix(w.out.String(), " ") {
		w.out.WriteByte(' ')
	}
}
