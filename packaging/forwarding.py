"""Libraries without code, which are there to load another one: ELF files, made without a compiler."""

import struct

# The numbers of processors in ELF files.
PROCESSORS = {"x86_64": 62, "aarch64": 183}
NEEDED, HASH, STRTAB, SYMTAB, STRSZ, SYMENT, SONAME, RUNPATH = 1, 4, 5, 6, 10, 11, 14, 29
# The largest pages of these processors.
PAGE = 0x10000


def texts(*words):
    """A table of texts, and the place of each in it."""
    table, places = b"\0", []
    for word in words:
        places.append(len(table))
        table += word.encode() + b"\0"
    return table, places


def library(name, target, machine):
    """The bytes of a library `name` that loads `target` from its own folder."""
    strings, (own, other, folder) = texts(name, target, "$ORIGIN")
    names, of_sections = texts(".dynamic", ".dynstr", ".dynsym", ".hash", ".shstrtab")
    begin = 64 + 3 * 56
    # One symbol, which is no symbol, as all tables of symbols have.
    at = {"hash": begin, "symbols": begin + 24, "strings": begin + 48}
    dynamic = at["strings"] + -(-len(strings) // 8) * 8
    entries = [(NEEDED, other), (SONAME, own), (RUNPATH, folder), (HASH, at["hash"]), (STRTAB, at["strings"]),
               (SYMTAB, at["symbols"]), (STRSZ, len(strings)), (SYMENT, 24), (0, 0)]
    tables = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    loaded = dynamic + len(tables)
    sections_at = -(-(loaded + len(names)) // 8) * 8
    # Kind, flags and addresses of what is loaded, and that the stack is not executed.
    segments = [(1, 6, 0, loaded, PAGE), (2, 6, dynamic, len(tables), 8), (0x6474e551, 6, 0, 0, 16)]
    # Name, kind, flags, place, length, section of its texts, further number, alignment, length of
    # an entry. Debuggers and auditwheel read sections.
    sections = [(0,) * 9, (of_sections[0], 6, 3, dynamic, len(tables), 2, 0, 8, 16), (of_sections[1], 3, 2, at["strings"], len(strings), 0, 0, 1, 0),
                (of_sections[2], 11, 2, at["symbols"], 24, 2, 1, 8, 24), (of_sections[3], 5, 2, at["hash"], 20, 3, 0, 8, 4),
                (of_sections[4], 3, 0, loaded, len(names), 0, 0, 1, 0)]
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, PROCESSORS[machine], 1, 0, 64, sections_at, 0, 64, 56,
                                                         len(segments), 64, len(sections), 5)
    for kind, flags, place, length, alignment in segments:
        head += struct.pack("<IIQQQQQQ", kind, flags, place, place, place, length, length, alignment)
    body = struct.pack("<IIIII4x", 1, 1, 0, 0, 0)[:24] + bytes(24) + strings.ljust(dynamic - at["strings"], b"\0") + tables + names
    body = (head + body).ljust(sections_at, b"\0")
    for word, kind, flags, place, length, link, more, alignment, entry in sections:
        address = place if flags & 2 else 0
        body += struct.pack("<IIQQQQIIQQ", word, kind, flags, address, place, length, link, more, alignment, entry)
    return body
