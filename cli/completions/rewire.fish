# fish completion for rewire. The program prints what can follow at the cursor.
function __rewire_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if string match -q '~*' -- $current
        __fish_complete_path $current
        return
    end
    # Close a quote that is still open.
    set -l word (string unescape -- $current; or string unescape -- $current'"'; or string unescape -- $current"'")
    command $words[1] __complete fish $words[2..] "$word" 2>/dev/null
end
complete -c rewire -f -a '(__rewire_complete)'
