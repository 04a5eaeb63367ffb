package document

import (
	"math"
	"strings"

	"github.com/ledongthuc/pdf"
)

const (
	pdfForms  = 5   // forms within forms
	pdfStates = 256 // saved graphics states
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

// textState is the part of the graphics state that says where text stands (ISO 32000-1, 9.3).
type textState struct {
	page, text, line matrix
	font             *pdfFont
	size, leading    float64
	charGap, wordGap float64
	stretch          float64
}

// pdfWriter writes the text that a page shows, in that order. A page positions glyphs and has no words or lines: a step down makes a new
// line, a large one a blank line before it, a step to the right of more than a sliver a space.
type pdfWriter struct {
	file  *pdfFile
	out   strings.Builder
	full  bool
	state textState
	saved []textState
	shown bool
	penX  float64 // where the last glyph ended
	penY  float64
}

func newPDFWriter(f *pdfFile) *pdfWriter {
	return &pdfWriter{file: f, state: textState{page: identity(), text: identity(), line: identity(), stretch: 1}}
}

// showContents interprets a content stream, or several that make one.
func (w *pdfWriter) showContents(v, resources pdf.Value, depth int) error {
	switch v.Kind() { //nolint:exhaustive // the rest shows nothing
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
		return err == nil && !w.full && w.file.ctx.Err() == nil
	})
	return err
}

// showForm shows a form, which is a content stream that pages share.
func (w *pdfWriter) showForm(v, resources pdf.Value, depth int) error {
	if depth > pdfForms || v.Key("Subtype").Name() != "Form" {
		return nil
	}
	if own := v.Key("Resources"); !own.IsNull() {
		resources = own
	}
	before := w.state
	if m := v.Key("Matrix"); m.Len() == 6 {
		var matrix matrix
		for i := range matrix {
			matrix[i] = m.Index(i).Float64()
		}
		w.state.page = matrix.times(w.state.page)
	}
	err := w.showStream(v, resources, depth)
	w.state = before
	return err
}

func matrixOf(args []operand) (m matrix) {
	for i := range m {
		m[i] = args[i].number
	}
	return m
}

// execute executes an operator. It skips one with too few operands, as viewers do.
func (w *pdfWriter) execute(op string, args []operand) {
	need := map[string]int{"cm": 6, "Tm": 6, "Td": 2, "TD": 2, "TL": 1, "Tc": 1, "Tw": 1, "Tz": 1, "Tj": 1, "TJ": 1, "'": 1, `"`: 3}[op]
	if len(args) < need {
		return
	}
	args = args[len(args)-need:]
	s := &w.state
	switch op {
	case "q":
		if len(w.saved) < pdfStates {
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

func (w *pdfWriter) moveLine(x, y float64) {
	w.state.line = matrix{1, 0, 0, 1, x, y}.times(w.state.line)
	w.state.text = w.state.line
}

func (w *pdfWriter) advance(x float64) {
	w.state.text = matrix{1, 0, 0, 1, x, 0}.times(w.state.text)
}

// showText writes a string and moves behind it.
func (w *pdfWriter) showText(raw string) {
	s := &w.state
	text, width, glyphs, blanks := s.font.decode(raw)
	if text == "" {
		return
	}
	at := s.text.times(s.page)
	size := math.Max(math.Abs(s.size)*math.Hypot(at[2], at[3]), 1e-3)
	if w.shown && !strings.HasPrefix(text, " ") {
		switch down := math.Abs(at[5] - w.penY); {
		case down > 1.9*size:
			w.out.WriteString("\n\n")
		case down > 0.5*size:
			w.out.WriteByte('\n')
		case at[4]-w.penX > 0.15*size, w.penX-at[4] > 2*size:
			w.addSpace()
		}
	}
	if w.out.Len()+len(text) > w.file.text {
		w.full = true
		return
	}
	w.out.WriteString(text)
	w.shown = true
	w.advance((width/1000*s.size + float64(glyphs)*s.charGap + float64(blanks)*s.wordGap) * s.stretch)
	at = s.text.times(s.page)
	w.penX, w.penY = at[4], at[5]
}

func (w *pdfWriter) addSpace() {
	if !strings.HasSuffix(w.out.String(), " ") {
		w.out.WriteByte(' ')
	}
}
