package ws

// Decode is decode for the fuzz test: the id and the type of a frame.
func Decode(data []byte) (id, kind string, err error) {
	r, err := decode(data)
	return r.ID, r.Type, err
}
