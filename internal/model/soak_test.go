//go:build soak

package model

const sequences = 50 * fast
