//go:build !soak

package model

const sequences = fast
