# Completes the words of combray run, mpirun and mpiexec: options and their values, then a program,
# then files for it.
_combray_run() {
    local options="@OPTIONS@"
    local levels="none core hwthread l1cache l2cache l3cache numa die package"
    # Split at blanks only: the shell would also split at the colon of "a:2".
    local line=${COMP_LINE:0:COMP_POINT} words current=$2 previous word place program=
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] || ${#words[@]} -eq 0 ]] || unset "words[-1]"
    previous=${words[-1]-}
    COMPREPLY=()
    case $previous in
        @HOSTS@)
            local before=
            [[ $current != *,* ]] || before=${current%,*},
            COMPREPLY=($(compgen -P "$before" -A hostname -- "${current##*,}"))
            return ;;
        @COMMANDS@) COMPREPLY=($(compgen -c -- "$current")); return ;;
        @FOLDERS@)
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -d -- "$current"))
            return ;;
        --bind-to | -bind-to) COMPREPLY=($(compgen -W "$levels" -- "$current")); return ;;
        --map-by | -map-by | --rank-by | -rank-by)
            COMPREPLY=($(compgen -W "slot node ${levels#none }" -- "$current"))
            return ;;
        # Files, which the shell offers if nothing else is offered.
        @VALUES@) return ;;
    esac
    for ((place = 1; place < ${#words[@]}; place++)); do
        word=${words[place]}
        case $word in
            run) ((place == 1)) || program=$word ;;
            :) program= ;;
            @PAIRS@) [[ -n $program ]] || ((place += 2)) ;;
            @HOSTS@ | @COMMANDS@ | @FOLDERS@ | @VALUES@) [[ -n $program ]] || ((place += 1)) ;;
            -*) ;;
            *) program=$word ;;
        esac
    done
    if [[ $current == -* ]]; then
        [[ -n $program ]] || COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ -z $program && -n $current && $current != */* ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -c -- "$current"; compgen -f -- "$current"))
    fi
}
